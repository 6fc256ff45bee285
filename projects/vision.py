"""Train an image classifier, and record what every sample does in every epoch.

mlflow run . -e cifar10 -P model=xception          as an MLflow Project
python -m projects.vision --dataset digits         the same without the launcher
python -m projects.vision --help                   what each parameter means
"""

from __future__ import annotations

from typing import Any

from actionflow.tracking import VisionRun, launch
from actionflow.tracking.vision_run import PictureRun
from actionflow.training.checks import check_trainable
from actionflow.training.curriculum import Curriculum
from actionflow.training.data import Samples, load_dataset, make_splits
from actionflow.training.data.label_noise import with_label_noise
from actionflow.training.loop import Trainer
from actionflow.training.threshold import draw_threshold_samples


def train(run: VisionRun) -> None:
    """One training from its data to its scores."""
    settings = run.settings

    # The data: images as they are, labels, and ids that are the same in every run.
    dataset = load_dataset(settings.dataset, settings.data_dir, settings.image_size).limit(settings.limit)
    dataset = with_label_noise(dataset, settings)
    splits = make_splits(dataset, settings.validation, settings.seed)
    check_trainable(splits["train"], settings)
    curriculum = None
    if settings.curriculum:
        curriculum = Curriculum.from_table(run.curriculum(dataset), splits["train"], settings)

    # An audit learns from samples with a class of their own how a wrong label looks.
    classes, extra = len(dataset.class_names), None
    if settings.threshold_samples == "true":
        extra = draw_threshold_samples(splits["train"], classes, settings.seed)
        splits["train"], classes = extra.train, classes + 1

    # The model: random weights, drawn by the seed.
    trainer = Trainer.fresh(dataset, settings, classes)

    # From here on the run is written to; a resumed one goes on after its last whole epoch.
    run.begin(dataset, splits, trainer, extra.facts() if extra else {})
    learn(run, trainer, splits, curriculum)


def learn(
    run: PictureRun[Any], trainer: Trainer, splits: dict[str, Samples], curriculum: Curriculum | None = None
) -> None:
    """Epoch by epoch until the last or until patience ends, whatever the model learns of pictures."""
    settings = run.settings
    held_out = [split for split in splits if split != "train"]
    for epoch in trainer.epochs():
        order = curriculum.order(settings.seed, epoch) if curriculum else None
        passes = {"train": trainer.train(splits["train"], run.watch_training(), order)}
        if settings.records_train and settings.train_signals == "exact":
            trainer.evaluate(splits["train"], run.watch("train"))
        for split in held_out:
            passes[split] = trainer.evaluate(splits[split], run.watch(split))
        # While a curriculum still opens, patience does not count.
        trainer.end_epoch(passes["val"], patient=curriculum is not None and not curriculum.all_open(epoch))
        run.end_epoch(trainer, passes)

    # The best weights are what is kept; the scores tell of the whole way there.
    trainer.restore_best()
    run.finish(trainer)


if __name__ == "__main__":
    launch(train, VisionRun)
