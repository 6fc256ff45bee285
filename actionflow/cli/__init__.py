"""The verbs: each one opens, asks, writes. stdout is data; everything said to a person goes to stderr."""

from __future__ import annotations

import sys

import click

from actionflow import __version__
from actionflow.cli.asking import hardest, query, runs, scores, sql
from actionflow.cli.auditing import audit
from actionflow.cli.clustering import curves
from actionflow.cli.comparing import compare
from actionflow.cli.explaining import explain
from actionflow.cli.marking import marks
from actionflow.cli.mending import scenarios
from actionflow.cli.ordering import curriculum
from actionflow.cli.publishing import paper_figures
from actionflow.cli.reporting import report
from actionflow.cli.serving import serve
from actionflow.errors import ActionFlowError


def main() -> None:
    """Run the command line; a mistake is one line on stderr and exit code 1."""
    try:
        cli(standalone_mode=False)
    except ActionFlowError as error:
        sys.exit(f"Error: {error}")
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="actionflow")
@click.option("--tracking-uri", envvar="MLFLOW_TRACKING_URI", help="Where the runs are; as in MLflow.")
@click.pass_context
def cli(context: click.Context, tracking_uri: str | None) -> None:
    """Which samples does a model struggle with? Asks the runs that recorded every sample in every epoch."""
    context.obj = tracking_uri


VERBS = (
    *(runs, hardest, scores, query, sql, curves, audit, explain, compare, report, paper_figures),
    *(curriculum, marks, scenarios, serve),
)
for verb in VERBS:
    cli.add_command(verb)
