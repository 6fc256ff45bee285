"""Look for wrong labels in a recorded run and keep the answer in that run.

mlflow run . -e audit -P run=digits-seed-0          as an MLflow Project
actionflow audit digits-seed-0 --log                the same without the launcher
"""

from __future__ import annotations

import click

import actionflow
from actionflow.session import say
from actionflow.store import layout
from projects.entry import mark_launched, run_entry


@click.command()
@click.option("--run", required=True, help="The id or name of the run.")
@click.option("--split", default="train", show_default=True)
@click.option("--by", default="aum", show_default=True, help="aum, confidence or action")
@click.option("--threshold", default="auto", show_default=True, help="mixture, samples, auto, or a share such as 5%")
@click.option("--k", default=20, show_default=True, help="How many samples to show.")
def main(run: str, split: str, by: str, threshold: str, k: int) -> None:
    """Audit, tell, keep; this project's own run says which run was audited."""
    audit = actionflow.audit(run, split, by, threshold)
    say(f"Logged into run {audit.log()}")
    mark_launched("audit", layout.TAG_AUDITED, audit.run_id)
    print(audit.text(k))


if __name__ == "__main__":
    run_entry(main)
