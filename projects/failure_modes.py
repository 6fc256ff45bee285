"""Explain the failures of a recorded run and keep the answer in that run.

mlflow run . -e failure_modes -P run=digits-seed-0     as an MLflow Project
actionflow explain digits-seed-0 --log                 the same without the launcher
"""

from __future__ import annotations

import click

import actionflow
from actionflow.analysis.failure_modes import Terms
from actionflow.session import say
from actionflow.store import layout
from projects.entry import mark_launched, run_entry


@click.command()
@click.option("--run", required=True, help="The id or name of the run.")
@click.option("--split", default="val", show_default=True)
@click.option("--grouping", default="label", show_default=True, help="label or prediction")
@click.option("--depth", default=1, show_default=True, help="1, 2 or 3")
@click.option("--features", default="auto", show_default=True, help="robust, own, none, or the id or name of a run")
@click.option("--attributes", default="", help="Columns of the samples, a,b; text reads texts.")
@click.option("--target", default="error", show_default=True, help="error or action")
@click.option("--high", default=0.2, show_default=True, help="The share of samples whose action is high.")
@click.option("--top", default=20, show_default=True, help="Features that tell most, which a tree is made of.")
@click.option("--delta", default=0.1, show_default=True, help="A rule has an error rate so far above its class's.")
@click.option("--tau", default=0.2, show_default=True, help="A rule covers more than this share of the errors.")
@click.option("--permutations", default=5, show_default=True, help="How often failures are shuffled.")
@click.option("--seed", default=0, show_default=True)
@click.option("--k", default=20, show_default=True, help="How many rules to show.")
def main(
    run: str,
    split: str,
    grouping: str,
    depth: int,
    features: str,
    attributes: str,
    target: str,
    high: float,
    top: int,
    delta: float,
    tau: float,
    permutations: int,
    seed: int,
    k: int,
) -> None:
    """Explain, tell, keep; this project's own run says which run was explained."""
    terms = Terms(top=top, delta=delta, tau=tau, permutations=permutations, seed=seed)
    found = actionflow.explain(run, split, grouping, depth, features, attributes, target, high, terms)
    say(f"Logged into run {found.log()}")
    mark_launched("failure_modes", layout.TAG_EXPLAINED, found.run_id)
    print(found.text(k))


if __name__ == "__main__":
    run_entry(main)
