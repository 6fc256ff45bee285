"""Small recorded runs for the tests of pages: numbers alone, or samples with any words in them."""

import mlflow
import numpy as np
import pyarrow as pa

import actionflow
from actionflow.store import layout
from actionflow.store.datasets import dataset_run, samples_table
from actionflow.store.writing import RunWriter

HOSTILE = "</script><script>alert('x')</script><img src=x onerror=alert(1)>{{ 7 * 7 }} \"q\" 'q' &amp;"
# Of runs whose labels were flipped: the first samples carry the next class.
CLASSES, SAMPLES, FLIPPED = 4, 400, 60


def record(name, losses, labels, predictions, tags=None, split="val", **own):
    """A run whose samples 0, 1, … have these losses (n, epochs), and these signals of their own in every epoch."""
    losses = np.asarray(losses, np.float32)
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    with mlflow.start_run(run_name=name, tags=tags or {}) as run, actionflow.Recorder() as recorder:
        for epoch in range(losses.shape[1]):
            signals = {"loss": losses[:, epoch], "label": labels, "prediction": predictions, **own}
            recorder.add_signals(np.arange(len(losses)), signals | {"correct": labels == predictions}, split=split)
            recorder.end_epoch()
    return run.info.run_id


def keep(store, digest, columns):
    """A data set's own run; returns the tags that a training on it has."""
    table = samples_table("made", digest, "test", {name: pa.array(values) for name, values in columns.items()}, {})
    run_id = dataset_run(store.client, store.experiment, "made", digest, lambda: {"test": table})
    return {"actionflow.dataset": "made", "actionflow.dataset_digest": digest, "actionflow.dataset_run": run_id}


def hostile_run(store):
    """A run whose name, labels and texts would be script if anybody let them."""
    columns = {"sample_id": [0, 1, 2], "label": [0, 1, 0], "label_name": [HOSTILE, "fine", HOSTILE]}
    tags = keep(store, "hostile", {**columns, "text": [HOSTILE, "plain", HOSTILE + " again"]})
    losses = [[2.0, 2.0], [1.0, 0.5], [0.5, 0.25]]
    return record(HOSTILE, losses, [0, 1, 0], [1, 1, 0], tags)


def three_samples(name, hardest=2):
    """A run of three samples, one of which is hard."""
    logits = [[4.0, 0.0], [3.5, 0.0], [3.0, 0.0]]
    logits[hardest] = [0.0, 1.0]
    with mlflow.start_run(run_name=name) as run, actionflow.Recorder() as recorder:
        for _ in range(2):
            recorder.add([0, 1, 2], logits, [0, 0, 0])
            recorder.end_epoch()
    return run.info.run_id


def with_pictures(name, client):
    """A run with all that a training on pictures leaves behind, of sixteen samples in each split."""
    draw = np.random.default_rng(0)
    with mlflow.start_run(run_name=name) as run, actionflow.Recorder() as recorder:
        for _ in range(2):
            for split, first in (("train", 0), ("val", 16)):
                ids, labels = np.arange(first, first + 16), np.arange(16) % 4
                recorder.add(ids, draw.normal(0, 1, (16, 4)).astype(np.float32), labels, split=split)
            recorder.end_epoch()
    writer = RunWriter(run.info.run_id, client)
    writer.log_features("val", np.arange(16, 32), draw.normal(0, 1, (16, 8)).astype(np.float32))
    writer.log_pixels("val", np.arange(16, 32), draw.random((16, 2, 3), np.float32))
    writer.sender.close()
    samples = {"sample_id": pa.array(range(32)), "image": pa.array([b"picture"] * 32), "label": pa.array([0] * 32)}
    part = samples_table("made up", "digest-1", "train", samples, {})
    pictures = dataset_run(client, run.info.experiment_id, "made up", "digest-1", lambda: {"train": part})
    client.set_tag(run.info.run_id, layout.TAG_DIGEST, "digest-1")
    client.set_tag(run.info.run_id, layout.TAG_DATASET_RUN, pictures)
    return run.info.run_id


def flipped_run(name, flipped=FLIPPED, probabilities=True, tags=None, by_heart=False):
    """A run on training samples of which the first carry a wrong label; by heart: learnt in the last epoch."""
    truth = np.arange(SAMPLES) % CLASSES
    labels = np.where(np.arange(SAMPLES) < flipped, (truth + 1) % CLASSES, truth)
    with (
        mlflow.start_run(run_name=name, tags=tags or {}) as run,
        actionflow.Recorder(probabilities=probabilities) as recorder,
    ):
        for logits in _logits(truth, labels, by_heart):
            recorder.add(np.arange(SAMPLES), logits, labels, split="train")
            recorder.end_epoch()
    return run.info.run_id


def _logits(truth, labels, by_heart, epochs=5):
    draw = np.random.default_rng(3)
    for epoch in range(epochs):
        logits = draw.normal(0, 0.5, (len(truth), CLASSES))
        logits[np.arange(len(truth)), truth] += 2 + draw.gamma(2.0, 0.5, len(truth))
        if by_heart and epoch == epochs - 1:
            logits[np.arange(len(truth)), labels] += 9
        yield logits.astype(np.float32)


def named_classes(store):
    """The texts and class names of the samples of flipped runs; returns their tags."""
    labels = np.arange(SAMPLES) % CLASSES
    names = [f"class {label}" for label in labels]
    texts = [f"text {n}" for n in range(SAMPLES)]
    return keep(store, "named", {"sample_id": range(SAMPLES), "label": labels, "label_name": names, "text": texts})
