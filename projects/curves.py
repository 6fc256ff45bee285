"""Group the samples of a recorded run by their loss curves and keep the answer in that run.

mlflow run . -e curves -P run=digits-seed-0          as an MLflow Project
actionflow curves digits-seed-0 --log                the same without the launcher
"""

from __future__ import annotations

import click

import actionflow
from actionflow.session import say
from actionflow.store import layout
from projects.entry import mark_launched, run_entry


@click.command()
@click.option("--run", required=True, help="The id or name of the run.")
@click.option("--k", default=3, show_default=True, help="How many clusters.")
@click.option("--split", default="val", show_default=True)
@click.option("--closest", default=3, show_default=True, help="How many samples to show of each cluster.")
@click.option("--seed", default=0, show_default=True)
def main(run: str, k: int, split: str, closest: int, seed: int) -> None:
    """Cluster, tell, keep; this project's own run says which run was clustered."""
    curves = actionflow.curves(run, k, split, closest, seed)
    for note in curves.notes():
        say(note)
    say(f"Logged into run {curves.log()}")
    mark_launched("curves", layout.TAG_CLUSTERED, curves.run_id)
    print(curves.text())


if __name__ == "__main__":
    run_entry(main)
