"""Draw what the action-score papers draw of some runs, and keep it in an MLflow run.

mlflow run . -e paper_figures -P runs=digits-seed-0,digits-seed-1       as an MLflow Project
actionflow paper-figures digits-seed-0 digits-seed-1                    the same without the launcher
"""

from __future__ import annotations

import click

import actionflow
from actionflow.session import say
from projects.entry import launched_run, listed, run_entry


@click.command()
@click.option("--runs", required=True, help="Ids or names, with commas between them.")
@click.option("--split", default="val", show_default=True)
@click.option("--format", "form", default="png", show_default=True, help="png, pdf or svg; PNGs are there in any case.")
@click.option("--run_name", default="", help="The run's name in MLflow.")
def main(runs: str, split: str, form: str, run_name: str) -> None:
    """Ask, draw, keep."""
    figures = actionflow.paper_figures(listed(runs), split)
    for note in figures.notes():
        say(note)
    # `mlflow run` has opened a run for this; without it a new one is made.
    say(f"Logged as run {figures.log(launched_run(), run_name, [form])}")


if __name__ == "__main__":
    run_entry(main)
