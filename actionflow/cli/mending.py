"""The verb for failure scenarios: scenarios."""

from __future__ import annotations

import click

from actionflow.cli.output import rows_out, write_rows


@click.command()
@click.argument("run")
@click.option("--sheets", metavar="DIR", help="Write a picture of every scenario into DIR, and labels.csv to fill in.")
@click.option("--labels", metavar="FILE", help="Read a labels.csv that was filled in, as the word of --by.")
@click.option("--by", default="csv", show_default=True, metavar="NAME", help="Who labelled it.")
@rows_out
@click.pass_obj
def scenarios(
    tracking_uri: str | None,
    run: str,
    sheets: str | None,
    labels: str | None,
    by: str,
    form: str | None,
    output: str | None,
) -> None:
    """List the failure scenarios that were found for RUN: its classifier, or any run of its chain.

    With --sheets or --labels, people label them without the page of `actionflow serve`.

    Example:

    \b
        actionflow scenarios fashion
        actionflow scenarios fashion --sheets labelling
        actionflow scenarios fashion --labels labelling/labels.csv --by anna
    """
    from pathlib import Path

    from mlflow import MlflowClient

    from actionflow.labelling import classes_in, distilled_of, keep_labels, read_csv, scenarios_in, write_sheets
    from actionflow.session import connect, say

    distilled = distilled_of(run, MlflowClient(tracking_uri=tracking_uri))
    found, names = scenarios_in(distilled), classes_in(distilled)
    if sheets:
        *pictures, target = write_sheets(Path(sheets), found, names)
        say(f"Wrote {len(pictures)} pictures and {target}: fill in its column answer with a class, none or fine.")
        return
    if labels:
        say(keep_labels(distilled.client, distilled, read_csv(labels, found, names), by).told + ".")
        return
    with connect(distilled.run_id, tracking_uri) as session:
        write_rows(session.query("scenarios"), form, output)
