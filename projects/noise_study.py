"""Which score finds wrong labels here, and what is it worth to leave out what it finds? With several seeds.

    mlflow run . -e noise_study -P dataset=digits -P noise=0.2 -P seeds=3
    mlflow run . -e noise_study -P dataset=cifar10 -P kind=file -P labels=labels.csv -P column=worse_label

Each seed makes training labels wrong, trains on them, and ranks the samples by every score of the house, by cleanlab
and by aum. Then it trains again without the suspects of an audit, without as many at random, and without what is truly
wrong. Right labels are looked at to judge what came out, and for nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import mlflow
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from actionflow.analysis.probabilities import mean_probabilities
from actionflow.analysis.suspects import check_threshold
from actionflow.auditing import audit
from actionflow.detecting import (
    Flagged,
    as_read,
    check_noise,
    detection_report,
    detection_verdicts,
    flagged_told,
    found_by,
    suspicions,
)
from actionflow.errors import ActionFlowError, SettingsError
from actionflow.peers import AumPackage, by_cleanlab, check_installed
from actionflow.present.figures import detection
from actionflow.present.rows import text_table
from actionflow.session import connect
from actionflow.studying import Trial, report, verdicts
from actionflow.tracking import VisionRun, nested_run
from actionflow.training.data import ImageDataset, Samples, load_dataset
from actionflow.training.data.folds import fold_numbers
from actionflow.training.data.label_noise import CLEAN_LABEL, with_label_noise
from actionflow.training.loop import Trainer
from actionflow.training.settings import VisionSettings
from projects.vision import train

NOISY, SUSPECTS, RANDOM, WRONG = "all labels", "without suspects", "without as many at random", "without wrong labels"
# Epochs without a better loss on the held-out fold, whose labels are as noisy as all others, until its training ends.
FOLD_PATIENCE = 3
# Every sample of every seed with what each score makes of it: what `projects.combined_score` reads.
SAMPLES = "noise_study_samples.parquet"


@click.command()
@click.option("--dataset", default="digits")
@click.option("--noise", default=0.2, help="Share of the training labels that is made wrong.")
@click.option("--kind", default="symmetric", help="symmetric, pairs or file.")
@click.option("--labels", default="", help="kind=file: a file with a label for each training sample.")
@click.option("--column", default="", help="kind=file: its column with the labels.")
@click.option("--seeds", default=3, help="How many times all of it is done.")
@click.option("--folds", default=3, help="Trainings for cleanlab, each of which holds out another share.")
@click.option("--threshold", default="auto", help="Of the audit: auto, mixture, or the share that is expected, 20%.")
@click.option("--model", default="keras_cnn")
@click.option("--epochs", default=20, help="Epochs on the noisy labels; retraining takes as many steps.")
@click.option("--batch_size", default=32)
@click.option("--learning_rate", default=0.001)
@click.option("--precision", default="fp32")
@click.option("--gradients", default="vog,grand", help="Scores that need gradients; empty leaves them out.")
@click.option("--data_dir", default="")
@click.option("--limit", default=0)
@click.option("--image_size", default=0)
@click.option("--run_name", default="noise study")
def main(
    noise: float,
    kind: str,
    labels: str,
    column: str,
    seeds: int,
    folds: int,
    threshold: str,
    run_name: str,
    **chosen: str | float,
) -> None:
    """Make labels wrong, look for them with every score, train without them; then say what came out."""
    try:
        check_installed()
        check_threshold(threshold)
        if seeds < 1:
            raise SettingsError(f"seeds must be at least 1, found {seeds}: type -P seeds=3.")
        protocol = VisionSettings(
            **chosen,  # type: ignore[arg-type]
            noise=0.0 if kind == "file" else noise,
            noise_kind=kind,
            noise_file=labels,
            noise_column=column,
            record="train",
            probabilities="true",
            # Validation is the clean test set: nothing may be stopped or slowed down by it.
            stop_patience=0,
            reduce_patience=0,
        )
        with mlflow.start_run() as parent:
            mlflow.set_tags({"actionflow.kind": "study", "mlflow.runName": run_name})
            studies = [study(replace(protocol, seed=seed), folds, threshold) for seed in range(seeds)]
            tell(f"{protocol.dataset}, {protocol.model}: {kind_of(protocol)}", studies, parent.info.run_id)
    except ActionFlowError as error:
        sys.exit(f"Error: {error}")


@dataclass(frozen=True)
class Study:
    """One seed: how suspicious each score finds each sample, what an audit flags, and what retraining comes to."""

    samples: pa.Table
    flagged: Flagged
    trials: list[Trial]


def study(protocol: VisionSettings, folds: int, threshold: str) -> Study:
    """Train on wrong labels, look for them, train again without what was found."""
    dataset = load_dataset(protocol.dataset, protocol.data_dir, protocol.image_size).limit(protocol.limit)
    dataset = with_label_noise(dataset, protocol)
    noisy = dataset.parts["train"]
    wrong = check_noise(noisy.labels, noisy.metadata.get(CLEAN_LABEL, noisy.labels))
    numbers = fold_numbers(noisy, folds, protocol.seed)

    # On all labels, recorded as every training is: the scores are those of this one run.
    with nested_run(WithAum, protocol, told(NOISY, protocol)) as run:
        train(run)
    samples = judged(run, noisy, wrong, out_of_fold(dataset, protocol, numbers))

    # Fewer samples, as many gradient steps, the same first weights.
    audited = audit(run.run_id, threshold=threshold)
    suspects = np.isin(noisy.sample_ids, audited.only_suspects()["sample_id"].to_numpy())
    as_many = np.random.default_rng(protocol.seed).permutation(suspects)
    baseline = trial_of(run)
    trials = [
        retrained(dataset, baseline, protocol, kind, dropped)
        for kind, dropped in ((SUSPECTS, suspects), (RANDOM, as_many), (WRONG, wrong))
    ]
    estimate = None if audited.way == "share" else audited.share
    return Study(samples, Flagged.of(protocol.seed, suspects, wrong, estimate), [baseline, *trials])


class WithAum(VisionRun):
    """A training that the package `aum` watches too, batch by batch."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.aum = AumPackage()

    def watch_training(self) -> list[Any]:
        """What every training has, and `aum`."""
        return [*super().watch_training(), self.aum]


def out_of_fold(dataset: ImageDataset, protocol: VisionSettings, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
    """The probabilities (n, classes) that every sample gets of a model that was not trained on it."""
    samples = dataset.parts["train"]
    probabilities = np.empty((len(samples), len(dataset.class_names)), np.float32)
    settings = replace(protocol, stop_patience=FOLD_PATIENCE)
    for fold in np.unique(numbers):
        inside = samples.take(np.flatnonzero(numbers == fold))
        with lean_run(told(f"fold {fold + 1} of {numbers.max() + 1}", protocol), settings):
            trainer = Trainer.fresh(dataset, settings)
            fit(trainer, samples.take(np.flatnonzero(numbers != fold)), inside)
        probabilities[numbers == fold] = trainer.probabilities(inside)
    return probabilities


def judged(run: WithAum, noisy: Samples, wrong: NDArray[np.bool_], unseen: NDArray[np.float32]) -> pa.Table:
    """The samples with what every score makes of them: the larger, the more suspicious."""
    with connect(run.run_id) as session:
        scores = session.sql("select * from scores where split = 'train' order by sample_id")
        seen = mean_probabilities(session, run.run_id, "train").values
    columns = {
        **suspicions(scores),
        **by_cleanlab("folds", noisy.labels, unseen),
        **by_cleanlab("epochs", noisy.labels, seen),
        "aum_package": run.aum.suspicion(noisy.sample_ids),
    }
    known = {"sample_id": noisy.sample_ids, "label": noisy.labels, "clean_label": noisy.metadata[CLEAN_LABEL]}
    seeds = np.full(len(noisy), run.settings.seed)
    return pa.table({"seed": seeds, **known, "wrong": wrong, **columns})


def retrained(
    dataset: ImageDataset, baseline: Trial, protocol: VisionSettings, kind: str, dropped: NDArray[np.bool_]
) -> Trial:
    """A training on what is left, of as many steps as the baseline, and its accuracy on the clean test set."""
    if not dropped.any():  # as an audit may have it; the same samples would come to the same end
        return replace(baseline, kind=kind)
    left = dataset.parts["train"].take(np.flatnonzero(~dropped))
    # Fewer samples in an epoch make more epochs of the same steps; the steps are what ends it.
    settings = replace(protocol, epochs=100 * protocol.epochs, steps=baseline.steps)
    with lean_run(told(f"{kind}: {len(left):,} labels", protocol), settings) as run_id:
        trainer = Trainer.fresh(dataset, settings)
        fit(trainer, left)
        tested = trainer.evaluate(dataset.parts["test"], [])
        assert tested.accuracy is not None  # a classifier's
        mlflow.log_metrics({"test/loss": tested.loss, "test/accuracy": tested.accuracy}, step=trainer.epoch)
    return Trial(kind, protocol.seed, run_id, tested.accuracy, trainer.steps, ())


def fit(trainer: Trainer, samples: Samples, held_out: Samples | None = None) -> None:
    """Train to the end; with samples held out, until their loss falls no more, and back to where it was least."""
    for epoch in trainer.epochs():
        passes = {"train": trainer.train(samples, [])}
        if held_out is not None:
            passes["fold"] = trainer.evaluate(held_out, [])
            trainer.end_epoch(passes["fold"])
        mlflow.log_metrics({f"{name}/loss": each.loss for name, each in passes.items()}, step=epoch)
    if held_out is not None:
        trainer.restore_best()


@contextmanager
def lean_run(name: str, settings: VisionSettings) -> Iterator[str]:
    """A nested run of which only the end matters: it keeps its settings and losses, and nothing of any sample."""
    with mlflow.start_run(nested=True, run_name=name) as run:
        mlflow.log_params(settings.as_dict())
        yield run.info.run_id


def told(name: str, protocol: VisionSettings) -> str:
    """What a training is called, said before the wait."""
    whole = f"{name}, seed {protocol.seed}"
    print(whole, file=sys.stderr)
    return whole


def kind_of(protocol: VisionSettings) -> str:
    """What made the labels wrong, for the title of a figure."""
    if protocol.noise_kind == "file":
        return f"labels of {Path(protocol.noise_file).name} {protocol.noise_column}".strip()
    return f"{protocol.noise:.0%} of the training labels wrong ({protocol.noise_kind})"


def trial_of(run: WithAum) -> Trial:
    """The training on all labels, with what it has come to after its last epoch."""
    metrics = run.client.get_run(run.run_id).data.metrics
    return Trial(NOISY, run.settings.seed, run.run_id, metrics["val/accuracy"], int(metrics["steps"]), ())


def tell(title: str, studies: list[Study], run_id: str) -> None:
    """Tables and their meaning in words, for people and in the study's run."""
    samples = pa.concat_tables([each.samples for each in studies])
    found = [row for each in studies for row in found_by(each.samples)]
    table = detection_report(found)
    flagged = [each.flagged for each in studies]
    pointless = () if any(each.count for each in flagged) else (SUSPECTS, RANDOM)
    trials = [trial for each in studies for trial in each.trials if trial.kind not in pointless]
    retraining = report(trials, NOISY).drop_columns(["reached_baseline", "steps_to_baseline"])
    share = float(np.mean(samples["wrong"].to_numpy(zero_copy_only=False)))
    words = [
        *detection_verdicts(found, share),
        flagged_told(flagged),
        *verdicts(retraining, NOISY, called=NOISY),
        *verdicts(report([each for each in trials if each.kind in (SUSPECTS, RANDOM)], RANDOM), RANDOM, called=RANDOM),
    ]
    text = "\n\n".join([text_table(as_read(table)), text_table(retraining), "\n".join(words)])
    print(text)
    client = mlflow.MlflowClient()
    client.log_table(run_id, table.to_pydict(), "noise_study.json")
    client.log_table(run_id, retraining.to_pydict(), "noise_study_retraining.json")
    client.log_text(run_id, text + "\n", "noise_study.txt")
    client.log_figure(run_id, detection(title, table, share), "noise_study.png")
    with TemporaryDirectory() as folder:
        pq.write_table(samples, Path(folder) / SAMPLES)
        client.log_artifacts(run_id, folder)
    client.set_tag(run_id, "mlflow.note.content", "\n\n".join(words))


if __name__ == "__main__":
    main()
