"""Train an image classifier adversarially, so that its features are what a person can see too.

mlflow run . -e robust -P dataset=cifar10          as an MLflow Project
python -m projects.robust --dataset digits         the same without the launcher
python -m projects.robust --help                   what each parameter means

Every batch is changed within an l2 ball, by PGD, for the worst. Its features are kept for every sample: `failure_modes`
explains other models' failures by them. `-P checkpoint=<file>` takes weights of your own instead of training any.
"""

from __future__ import annotations

from actionflow.tracking import RobustRun, launch
from actionflow.training.checks import check_trainable
from actionflow.training.curriculum import Curriculum
from actionflow.training.data import Samples, load_dataset, make_splits
from actionflow.training.data.label_noise import with_label_noise
from actionflow.training.loop import Trainer
from actionflow.training.robust import RobustTrainer
from projects.vision import learn


def train(run: RobustRun) -> None:
    """One adversarial training from its data to its features."""
    settings = run.settings

    # The data, as every training on pictures has them.
    dataset = load_dataset(settings.dataset, settings.data_dir, settings.image_size).limit(settings.limit)
    dataset = with_label_noise(dataset, settings)
    splits = make_splits(dataset, settings.validation, settings.seed)
    check_trainable(splits["train"], settings)
    curriculum = None
    if settings.curriculum:
        curriculum = Curriculum.from_table(run.curriculum(dataset), splits["train"], settings)

    # The model: random weights, or somebody's own; a step of this trainer changes its pictures first.
    trainer = RobustTrainer.fresh(dataset, settings)
    run.begin(dataset, splits, trainer)
    if settings.checkpoint:
        record(run, trainer, splits)
    else:
        learn(run, trainer, splits, curriculum)


def record(run: RobustRun, trainer: Trainer, splits: dict[str, Samples]) -> None:
    """One epoch in which nothing is trained: what a model that is given says of every sample."""
    passes = {split: trainer.evaluate(samples, run.watch(split)) for split, samples in splits.items()}
    trainer.end_epoch(passes["val"])
    run.end_epoch(trainer, passes)
    trainer.epoch += 1
    run.finish(trainer)


if __name__ == "__main__":
    launch(train, RobustRun)
