"""Compare recorded runs and keep the answer in an MLflow run.

mlflow run . -e compare -P runs=digits-seed-0,digits-seed-1     as an MLflow Project
actionflow compare digits-seed-0 digits-seed-1 --log            the same without the launcher
"""

from __future__ import annotations

import click

import actionflow
from actionflow.session import say
from projects.entry import launched_run, listed, run_entry


@click.command()
@click.option("--runs", required=True, help="Ids or names, with commas between them.")
@click.option("--split", default="val", show_default=True)
@click.option("--quantiles", default=20, show_default=True)
@click.option("--side", default="above", show_default=True, help="above, below or within")
@click.option("--least", default=10, show_default=True, help="Fewer samples get no correlation.")
@click.option("--run_name", default="", help="The run's name in MLflow.")
def main(runs: str, split: str, quantiles: int, side: str, least: int, run_name: str) -> None:
    """Compare, tell, keep."""
    comparison = actionflow.compare(listed(runs), split, quantiles, side, least)
    for note in comparison.notes():
        say(note)
    # `mlflow run` has opened a run for this; without it a new one is made.
    say(f"Logged as run {comparison.log(launched_run(), run_name)}")
    print(comparison.text())


if __name__ == "__main__":
    run_entry(main)
