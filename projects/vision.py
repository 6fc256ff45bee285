"""Train an image classifier, and record what every sample does in every epoch.

mlflow run . -e cifar10 -P model=xception          as an MLflow Project
python -m projects.vision --dataset digits         the same without the launcher
python -m projects.vision --help                   what each parameter means
"""

from __future__ import annotations

from actionflow.tracking import VisionRun, launch
from actionflow.training.checks import check_trainable
from actionflow.training.curriculum import Curriculum
from actionflow.training.data import load_dataset, make_splits
from actionflow.training.loop import Trainer, seed_everything
from actionflow.training.models import build_model


def train(run: VisionRun) -> None:
    """One training from its data to its scores."""
    settings = run.settings

    # The data: images as they are, labels, and ids that are the same in every run.
    dataset = load_dataset(settings.dataset, settings.data_dir, settings.image_size).limit(settings.limit)
    splits = make_splits(dataset, settings.validation, settings.seed)
    held_out = [split for split in splits if split != "train"]
    check_trainable(splits["train"], settings)
    curriculum = None
    if settings.curriculum:
        curriculum = Curriculum.from_table(run.curriculum(dataset), splits["train"], settings)

    # The model: random weights, drawn by the seed.
    seed_everything(settings.seed)
    model = build_model(settings.model, dataset.channels, dataset.image_size, len(dataset.class_names))
    trainer = Trainer(model, settings)

    # From here on the run is written to; a resumed one goes on after its last whole epoch.
    run.begin(dataset, splits, trainer)

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
