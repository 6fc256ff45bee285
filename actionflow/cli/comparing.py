"""The verb that compares runs."""

from __future__ import annotations

import click

from actionflow.cli.output import rows_out


@click.command()
@click.argument("names", metavar="RUN RUN...", nargs=-1)
@click.option("--split", default="val", show_default=True, help="val, train or test.")
@click.option("--quantiles", default=20, show_default=True, help="Steps of the curve, at most 100.")
@click.option(
    "--side",
    default="above",
    show_default=True,
    help="Which samples belong to a quantile: those at or above it, at or below it, or within it and the next.",
    metavar="above|below|within",
)
@click.option("--least", default=10, show_default=True, help="Fewer samples get no correlation.")
@click.option("--log", "logged", is_flag=True, help="Write it into an MLflow run too: tables, figure, page, curve.")
@rows_out
@click.pass_obj
def compare(
    tracking_uri: str | None,
    names: tuple[str, ...],
    split: str,
    quantiles: int,
    side: str,
    least: int,
    logged: bool,
    form: str | None,
    output: str | None,
) -> None:
    """Compare RUNs pair by pair: how far do they agree on which samples are hard?

    Correlation of action, overall and in each class, then among the samples above each quantile of the first run's
    action. Runs queries/run_correlation.sql and queries/quantile_correlation.sql; csv and json have every number.

    Example:

    \b
        actionflow compare digits-seed-0 digits-seed-1
        actionflow compare digits-seed-0 digits-seed-1 --side within --quantiles 10 --log
    """
    from actionflow.comparing import compare as compare_runs
    from actionflow.present import rows
    from actionflow.session import say

    comparison = compare_runs(names, split, quantiles, side, least, tracking_uri)
    for note in comparison.notes():
        say(note)
    # Before the rows: a reader that has seen enough, such as head, ends us while they are written.
    if logged:
        say(f"Logged as run {comparison.log()}")
    rows.write(comparison.rows(), form, output, as_text=lambda _: comparison.text())
