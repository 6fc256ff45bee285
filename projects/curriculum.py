"""Order the training samples of a run for retraining, as an MLflow Project.

mlflow run . -e curriculum -P run=digits-seed-0 -P order=easy-first -P fraction=0.5
"""

from __future__ import annotations

import os
import sys

import click
from mlflow import MlflowClient

import actionflow
from actionflow.store import layout


@click.command()
@click.option("--run", required=True)
@click.option("--order", default="easy-first")
@click.option("--score", default="action")
@click.option("--fraction", default=1.0)
@click.option("--drop_hardest", default=0.0)
@click.option("--balanced", type=bool, default=False)
@click.option("--stages", default=1)
@click.option("--seed", default=0)
@click.option("--without_marked", default="")
@click.option("--name", default="")
def main(**chosen: str | float | bool) -> None:
    """Make the curriculum, and say in this project's own run where it lies."""
    try:
        address = actionflow.curriculum(**chosen)  # type: ignore[arg-type]
    except actionflow.ActionFlowError as error:
        sys.exit(f"Error: {error}")
    print(address)
    launched = os.environ.get("MLFLOW_RUN_ID")
    if launched:
        client = MlflowClient()
        client.set_tag(launched, layout.TAG_KIND, "curriculum")
        client.set_tag(launched, layout.TAG_CURRICULUM, address)


if __name__ == "__main__":
    main()
