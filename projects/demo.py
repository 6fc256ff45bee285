"""Train a small CNN twice on the real digits that come with scikit-learn, then look at what it struggled with.

make demo
"""

from __future__ import annotations

import os
import subprocess
import sys

import actionflow
from actionflow.present.rows import text_table
from actionflow.store.finding import find_runs
from actionflow.store.reading import StoredRun

SEEDS = (0, 1)
HARDEST = ["hardness_rank", "sample_id", "label", "prediction", "action", "correctness", "entropy"]


def main() -> None:
    """Two trainings and a summary."""
    os.environ.setdefault("MLFLOW_TRACKING_URI", "sqlite:///mlflow.db")
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    for seed in SEEDS:
        train(seed)
    summarise([newest(seed) for seed in SEEDS])


def train(seed: int) -> None:
    """One training, exactly as a person would launch it."""
    command = ["mlflow", "run", ".", "-e", "digits", "-P", f"seed={seed}", "-P", f"run_name={name(seed)}"]
    print(f"\n$ {' '.join(command)}", file=sys.stderr)
    if subprocess.run(command, check=False).returncode:
        sys.exit(1)


def name(seed: int) -> str:
    """What the demo's runs are called."""
    return f"digits-seed-{seed}"


def newest(seed: int) -> StoredRun:
    """The last run of this name: the demo may have run before."""
    return next(run for run in find_runs([]) if run.name == name(seed))


def summarise(runs: list[StoredRun]) -> None:
    """The hardest samples, how far the runs agree, and where to look next."""
    first, second = runs
    with actionflow.connect([first.run_id, second.run_id]) as session:
        agreement = session.query("run_correlation", run_a=first.run_id, run_b=second.run_id).to_pylist()[0]
    with actionflow.connect(first.run_id) as session:
        hardest = session.query("hardest", k=10).select(HARDEST)
    print(f"\nThe ten hardest of {agreement['samples']} validation samples, by {first.name}:\n")
    print(text_table(hardest))
    print(
        f"\nHow far the two runs agree on what is hard (correlation of action): Pearson {agreement['pearson']:.2f}, "
        f"Spearman {agreement['spearman']:.2f}.\n"
        f"\nPictures    {os.path.relpath(first.local('hardest.png'))}"
        f"\n            {os.path.relpath(first.local('action_histogram.png'))}"
        f"\nMore        source .venv/bin/activate, then: actionflow hardest {first.run_id[:8]} -k 20"
        f"\nPages       .venv/bin/actionflow serve --backend-store-uri {os.environ['MLFLOW_TRACKING_URI']}"
        "\n            then open http://127.0.0.1:5000/actionflow/ (MLflow's own pages are beside it)"
    )


if __name__ == "__main__":
    main()
