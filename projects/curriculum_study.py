"""Does the order of training samples matter here? As many gradient steps in five orders, with several seeds.

    mlflow run . -e curriculum_study -P dataset=digits -P seeds=3

Each seed trains a baseline, takes its scores, and trains again from the same weights: easy first, hard first, in random
stages, and without the hardest samples. The test set is never trained or tuned on.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import click
import mlflow

import actionflow
from actionflow.errors import ActionFlowError
from actionflow.present.rows import text_table
from actionflow.studying import Trial, report, verdicts
from actionflow.tracking import VisionRun, nested_run
from actionflow.training.settings import VisionSettings
from projects.vision import train

BASELINE = "baseline"
# Of each kind: how the curriculum is ordered, and how it opens.
LESSONS = {
    "easy-first": ({"order": "easy-first", "stages": 4}, "step"),
    "hard-first": ({"order": "hard-first", "stages": 4}, "step"),
    "random": ({"order": "random", "stages": 4}, "step"),
    "drop-hardest": ({"order": "easy-first", "drop_hardest": 0.05}, "full"),
}


@click.command()
@click.option("--dataset", default="digits")
@click.option("--model", default="keras_cnn")
@click.option("--epochs", default=12, help="Epochs of the baseline; the others take as many steps.")
@click.option("--seeds", default=3, help="How many seeds each order is trained with.")
@click.option("--validation", default="0.1", help="Share of the training set that chooses the epoch.")
@click.option("--batch_size", default=32)
@click.option("--data_dir", default="")
@click.option("--limit", default=0)
@click.option("--run_name", default="curriculum study")
def main(seeds: int, run_name: str, **chosen: str | int) -> None:
    """Train every order with every seed, then say what came out."""
    try:
        with mlflow.start_run() as parent:
            mlflow.set_tags({"actionflow.kind": "study", "mlflow.runName": run_name})
            protocol = VisionSettings(**chosen, record="both", stop_patience=0, reduce_patience=0)  # type: ignore[arg-type]
            trials = [trial for seed in range(seeds) for trial in study(replace(protocol, seed=seed))]
            tell(trials, parent.info.run_id)
    except ActionFlowError as error:
        sys.exit(f"Error: {error}")


def study(protocol: VisionSettings) -> list[Trial]:
    """The trials of one seed: the baseline, then every order with as many steps."""
    seed = protocol.seed
    baseline = Trial.of(BASELINE, seed, trained(protocol, f"{BASELINE} seed {seed}"))
    pacing_epochs = max(1, protocol.epochs // 2)
    # Fewer samples in an epoch make more epochs of the same steps; the steps are what ends it.
    paced = replace(protocol, epochs=100 * protocol.epochs, steps=baseline.steps, pacing_epochs=pacing_epochs)
    trials = [baseline]
    for kind, (order, pacing) in LESSONS.items():
        address = actionflow.curriculum(baseline.run_id, seed=seed, name=kind, **order)  # type: ignore[arg-type]
        run_id = trained(replace(paced, curriculum=address, pacing=pacing), f"{kind} seed {seed}")
        trials.append(Trial.of(kind, seed, run_id))
    return trials


def trained(settings: VisionSettings, run_name: str) -> str:
    """One training inside the study's run."""
    print(f"\n{run_name}", file=sys.stderr)
    with nested_run(VisionRun, settings, run_name) as run:
        train(run)
    return run.run_id


def tell(trials: list[Trial], run_id: str) -> None:
    """The table and its meaning in words, for people and in the study's run."""
    table = report(trials, BASELINE)
    words = verdicts(table, BASELINE)
    print(text_table(table))
    print("\n" + "\n".join(words))
    client = mlflow.MlflowClient()
    client.log_table(run_id, table.to_pydict(), "curriculum_study.json")
    client.log_text(run_id, text_table(table) + "\n\n" + "\n".join(words) + "\n", "curriculum_study.txt")
    client.set_tag(run_id, "mlflow.note.content", "\n\n".join(words))


if __name__ == "__main__":
    main()
