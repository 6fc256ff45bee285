"""The verbs: each one opens, asks, writes. stdout is data; everything said to a person goes to stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from actionflow import __version__
from actionflow.errors import ActionFlowError, QueryError

if TYPE_CHECKING:
    import pyarrow as pa

    from actionflow.query.files import Value

Verb = TypeVar("Verb", bound=Callable[..., Any])


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


def rows_out(verb: Verb) -> Verb:
    """Give a verb that prints rows its --format and --output."""
    forms = click.Choice(["table", "csv", "json", "parquet"])
    verb = click.option("--format", "form", type=forms, help="table on a terminal, csv in a pipe.")(verb)
    return click.option("--output", metavar="FILE", help="Write to a file; its ending says the format.")(verb)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="actionflow")
@click.option("--tracking-uri", envvar="MLFLOW_TRACKING_URI", help="Where the runs are; as in MLflow.")
@click.pass_context
def cli(context: click.Context, tracking_uri: str | None) -> None:
    """Which samples does a model struggle with? Asks the runs that recorded every sample in every epoch."""
    context.obj = tracking_uri


@cli.command()
@rows_out
@click.pass_obj
def runs(tracking_uri: str | None, form: str | None, output: str | None) -> None:
    """List the runs that recorded something, newest first.

    Example:

    \b
        actionflow runs
    """
    from actionflow.session import connect

    with connect(tracking_uri=tracking_uri) as session:
        _write(session.query("runs"), form, output)


@cli.command()
@click.argument("names", metavar="[RUN]...", nargs=-1)
@click.option("-k", default=10, show_default=True, help="How many samples of each run.")
@click.option("--split", default="val", show_default=True, help="val, train or test.")
@rows_out
@click.pass_obj
def hardest(
    tracking_uri: str | None, names: tuple[str, ...], k: int, split: str, form: str | None, output: str | None
) -> None:
    """Show the samples that collected the most loss in each RUN.

    Runs queries/hardest.sql.

    Example:

    \b
        actionflow hardest digits-keras_cnn-seed0 -k 5
    """
    _ask(tracking_uri, names, "hardest", {"k": k, "split": split}, form, output)


@cli.command()
@click.argument("names", metavar="[RUN]...", nargs=-1)
@click.option("--split", default="val", show_default=True, help="val, train or test.")
@rows_out
@click.pass_obj
def scores(tracking_uri: str | None, names: tuple[str, ...], split: str, form: str | None, output: str | None) -> None:
    """Write every score of every sample of each RUN.

    Example:

    \b
        actionflow scores digits-keras_cnn-seed0 --output scores.parquet
    """
    from actionflow.session import connect

    with connect(names, tracking_uri=tracking_uri) as session:
        rows = session.sql("select * from scores where split = $split order by run_id, sample_id", split=split)
        _write(rows, form, output)


@cli.command()
@click.argument("name", required=False)
@click.option("--run", "names", multiple=True, metavar="RUN", help="Id, start of an id, or name; all when left out.")
@click.option("-p", "parameters", multiple=True, metavar="NAME=VALUE", help="A parameter of the query.")
@click.option("--list", "listed", is_flag=True, help="List the queries.")
@click.option("--show", is_flag=True, help="Print the query's SQL instead of running it.")
@rows_out
@click.pass_obj
def query(
    tracking_uri: str | None,
    name: str | None,
    names: tuple[str, ...],
    parameters: tuple[str, ...],
    listed: bool,
    show: bool,
    form: str | None,
    output: str | None,
) -> None:
    """Ask one of the questions in queries/ by its NAME.

    Example:

    \b
        actionflow query --list
        actionflow query hardest --run digits-keras_cnn-seed0 -p k=3
    """
    from actionflow.query import files

    if listed or name is None:
        for each in files.names():
            click.echo(f"{each:24} {files.load(each).summary}")
    elif show:
        click.echo(files.load(name).sql)
    else:
        _ask(tracking_uri, names, name, _parameters(parameters), form, output)


@cli.command()
@click.argument("text", metavar="SQL")
@click.option("--runs", "names", multiple=True, metavar="RUN", help="Id, start of an id, or name; all when left out.")
@rows_out
@click.pass_obj
def sql(tracking_uri: str | None, text: str, names: tuple[str, ...], form: str | None, output: str | None) -> None:
    """Ask in SQL, over the views runs, dynamics, samples, scores and features; - reads it from stdin.

    Example:

    \b
        actionflow sql "select split, count(*) from scores group by split"
    """
    from actionflow.session import connect

    with connect(names, tracking_uri=tracking_uri) as session:
        _write(session.sql(sys.stdin.read() if text == "-" else text), form, output)


def _ask(
    tracking_uri: str | None,
    names: tuple[str, ...],
    question: str,
    parameters: dict[str, Value],
    form: str | None,
    output: str | None,
) -> None:
    from actionflow.session import connect

    with connect(names, tracking_uri=tracking_uri) as session:
        _write(session.query(question, **parameters), form, output)


def _write(table: pa.Table, form: str | None, output: str | None) -> None:
    from actionflow.present import rows

    rows.write(table, form, output)


def _parameters(pairs: tuple[str, ...]) -> dict[str, Value]:
    from actionflow.query.files import value_of

    for pair in pairs:
        if "=" not in pair:
            raise QueryError(f"a parameter is written -p name=value, found {pair!r}.")
    return {name: value_of(value) for name, _, value in (pair.partition("=") for pair in pairs)}
