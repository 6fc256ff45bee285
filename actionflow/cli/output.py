"""What the verbs share: how rows are written out, and what a person may choose about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    import pyarrow as pa

Verb = TypeVar("Verb", bound=Callable[..., Any])


def rows_out(verb: Verb) -> Verb:
    """Give a verb that prints rows its --format and --output."""
    forms = click.Choice(["table", "csv", "json", "parquet"])
    verb = click.option("--format", "form", type=forms, help="table on a terminal, csv in a pipe.")(verb)
    return click.option("--output", metavar="FILE", help="Write to a file; its ending says the format.")(verb)


def on_server(verb: Verb) -> Verb:
    """Let a verb ask a server in place of the runs' own store."""
    told = "Let this `actionflow serve` answer; nothing is fetched but the rows."
    return click.option("--server", metavar="URL", help=told)(verb)


def write_rows(table: pa.Table, form: str | None, output: str | None) -> None:
    """Write a verb's rows where the person asked for them."""
    from actionflow.present import rows

    rows.write(table, form, output)
