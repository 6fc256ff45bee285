"""What entry points that ask about recorded runs share: mistakes in one line, a mark on the run of the asking."""

from __future__ import annotations

import os
import sys

import click
from mlflow import MlflowClient

from actionflow.errors import ActionFlowError
from actionflow.store import layout


def run_entry(command: click.Command) -> None:
    """Run a command; a mistake is one line on stderr and exit code 1."""
    try:
        command(standalone_mode=False)
    except ActionFlowError as error:
        sys.exit(f"Error: {error}")
    except click.ClickException as error:
        sys.exit(f"Error: {error.format_message()}")


def launched_run() -> str | None:
    """The run that `mlflow run` has opened for this process."""
    return os.environ.get("MLFLOW_RUN_ID")


def mark_launched(kind: str, tag: str, run_id: str) -> None:
    """Write on the run that `mlflow run` has opened what it did, and to which run."""
    launched = launched_run()
    if launched:
        client = MlflowClient()
        client.set_tag(launched, layout.TAG_KIND, kind)
        client.set_tag(launched, tag, run_id)


def listed(words: str) -> list[str]:
    """Ids or names with commas between them."""
    return [word.strip() for word in words.split(",") if word.strip()]
