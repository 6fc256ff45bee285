"""Verbs that ask: runs, hardest, scores, query, sql."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from actionflow.cli.output import on_server, rows_out, write_rows
from actionflow.errors import QueryError

if TYPE_CHECKING:
    from actionflow.questions.files import Value
    from actionflow.remote import RemoteSession
    from actionflow.session import Session


@click.command()
@click.option("--lineage", is_flag=True, help="Show which run each was made from, back to the first.")
@rows_out
@click.pass_obj
def runs(tracking_uri: str | None, lineage: bool, form: str | None, output: str | None) -> None:
    """List the runs that recorded something, newest first.

    Example:

    \b
        actionflow runs
        actionflow runs --lineage
    """
    from actionflow.session import connect

    with connect(tracking_uri=tracking_uri) as session:
        if lineage:
            from actionflow.present.lineage import chains

            write_rows(chains(session.sql("select * from runs order by start_time, run_id")), form, output)
        else:
            write_rows(session.query("runs"), form, output)


@click.command()
@click.argument("names", metavar="[RUN]...", nargs=-1)
@click.option("-k", default=10, show_default=True, help="How many samples of each run.")
@click.option("--split", default="val", show_default=True, help="val, train or test.")
@rows_out
@click.pass_obj
def hardest(
    tracking_uri: str | None, names: tuple[str, ...], k: int, split: str, form: str | None, output: str | None
) -> None:
    """Show the samples that collected the most loss in each RUN.

    Runs queries/hardest.sql, and shows how the texts of the samples begin, where they have any.

    Example:

    \b
        actionflow hardest digits-keras_cnn-seed0 -k 5
    """
    from actionflow.session import connect, with_texts

    with connect(names, tracking_uri=tracking_uri) as session:
        write_rows(with_texts(session, session.query("hardest", k=k, split=split)), form, output)


@click.command()
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
        write_rows(rows, form, output)


@click.command()
@click.argument("name", required=False)
@click.option("--run", "names", multiple=True, metavar="RUN", help="As in `sql --runs`; all when left out.")
@click.option("-p", "parameters", multiple=True, metavar="NAME=VALUE", help="A parameter of the query.")
@click.option("--queries", metavar="DIR", help="A folder with .sql files of your own, beside the house's.")
@click.option("--list", "listed", is_flag=True, help="List the queries.")
@click.option("--show", is_flag=True, help="Print the query's SQL instead of running it.")
@click.option("--explain", is_flag=True, help="Print how DuckDB would answer instead.")
@on_server
@rows_out
@click.pass_obj
def query(
    tracking_uri: str | None,
    name: str | None,
    names: tuple[str, ...],
    parameters: tuple[str, ...],
    queries: str | None,
    listed: bool,
    show: bool,
    explain: bool,
    server: str | None,
    form: str | None,
    output: str | None,
) -> None:
    """Ask one of the questions in queries/ by its NAME.

    Example:

    \b
        actionflow query --list
        actionflow query hardest --run digits-seed-0 -p k=3
        actionflow query run_correlation -p run_a=digits-seed-0 -p run_b=digits-seed-1
    """
    from actionflow.questions import files

    own = Path(queries) if queries else None
    if listed or name is None:
        known = files.names(own)
        width = max(map(len, known))
        for each in known:
            click.echo(f"{each:{width}} {files.load(each, own).summary}")
        return
    asked = files.load(name, own)
    given = _parameters(parameters)
    if show:
        click.echo(asked.sql)
        return
    asked.check(given)
    with _opened(names, tracking_uri, server, own, given) as session:
        if explain:
            click.echo(session.explain(name, **given))
        else:
            write_rows(session.query(name, **given), form, output)


@click.command()
@click.argument("text", metavar="SQL")
@click.option(
    "--runs",
    "names",
    multiple=True,
    metavar="RUN",
    help="Id, start of an id, name, experiment or MLflow filter, or several: a,b; all when left out.",
)
@on_server
@rows_out
@click.pass_obj
def sql(
    tracking_uri: str | None,
    text: str,
    names: tuple[str, ...],
    server: str | None,
    form: str | None,
    output: str | None,
) -> None:
    """Ask in SQL; - reads it from stdin.

    The views are runs, dynamics, samples, scores, features, pixels, outputs, clusters, audits, curricula and marks.

    Example:

    \b
        actionflow sql "select split, count(*) from scores group by split"
        actionflow sql "select name from runs" --server http://127.0.0.1:5000
    """
    with _opened(names, tracking_uri, server) as session:
        write_rows(session.sql(sys.stdin.read() if text == "-" else text), form, output)


def _opened(
    names: tuple[str, ...],
    tracking_uri: str | None,
    server: str | None,
    own: Path | None = None,
    given: Mapping[str, Value] | None = None,
) -> Session | RemoteSession:
    """Whoever answers: a server, which knows itself which runs the parameters name, or the runs' own files."""
    if server:
        from actionflow.remote import RemoteSession

        return RemoteSession(server, names, queries=own)
    from actionflow.session import connect, runs_named

    return connect(names or runs_named(given or {}), tracking_uri, own)


def _parameters(pairs: tuple[str, ...]) -> dict[str, Value]:
    from actionflow.questions.files import value_of

    for pair in pairs:
        if "=" not in pair:
            raise QueryError(f"a parameter is written -p name=value, found {pair!r}.")
    return {name: value_of(value) for name, _, value in (pair.partition("=") for pair in pairs)}
