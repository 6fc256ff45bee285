"""Train a language model on texts, and record what every sample does in every epoch.

mlflow run . -e emotion                             as an MLflow Project
python -m projects.text --dataset emotion           the same without the launcher
python -m projects.text --help                      what each parameter means
"""

from __future__ import annotations

from actionflow.integrations.huggingface import ActionCallback
from actionflow.tracking import launch
from actionflow.tracking.text_run import TextRun
from actionflow.training.checks import check_trainable
from actionflow.training.curriculum import Curriculum
from actionflow.training.data import make_splits
from actionflow.training.language import encode, load_language_model, make_trainer, task_of
from actionflow.training.loop import seed_everything
from actionflow.training.texts import OwnColumns, load_texts


def train(run: TextRun) -> None:
    """One training from its texts to its scores."""
    settings = run.settings

    # The data: texts, labels or targets, and ids that are the same in every run.
    own = OwnColumns(
        settings.data, settings.text_column, settings.context_column, settings.label_column, settings.target_column
    )
    dataset = load_texts(settings.dataset, settings.data_dir, own).limit(settings.limit)
    splits = make_splits(dataset, settings.validation, settings.seed)
    check_trainable(splits["train"], settings, classes=bool(dataset.class_names))
    curriculum = None
    if settings.curriculum:
        curriculum = Curriculum.from_table(run.curriculum(dataset), splits["train"], settings)

    # The model: from the hub, a folder, or a tiny one; its new head is drawn by the seed.
    seed_everything(settings.seed)
    language = load_language_model(settings.model, dataset, settings.max_length)
    encoded = {split: encode(samples, dataset, language, settings) for split, samples in splits.items()}
    task = task_of(dataset, language, splits, encoded)

    # Hugging Face trains; the callback records what every sample does.
    trainer = make_trainer(language, task, encoded, settings, curriculum, run.checkpoints)
    checkpoint = run.begin(dataset, splits, encoded, language, task)
    callback = ActionCallback(
        trainer,
        record=run.recorded_splits,
        signals=task.answering,
        recorder=run.recorder,
        after_epoch=run.end_epoch,
    )
    trainer.add_callback(callback)
    trainer.add_callback(run.progress_bar())
    trainer.train(resume_from_checkpoint=checkpoint)

    # The weights of the last epoch are what is kept; the scores tell of the whole way there.
    run.finish(task, callback.token_losses())


if __name__ == "__main__":
    launch(train, TextRun)
