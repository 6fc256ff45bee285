"""Small recorded runs for the tests of pages: numbers alone, or samples with any words in them."""

import mlflow
import numpy as np
import pyarrow as pa

import actionflow
from actionflow.store.datasets import dataset_run, samples_table

HOSTILE = "</script><script>alert('x')</script><img src=x onerror=alert(1)>{{ 7 * 7 }} \"q\" 'q' &amp;"


def record(name, losses, labels, predictions, tags=None, split="val"):
    """A run whose samples 0, 1, … have these losses (n, epochs)."""
    losses = np.asarray(losses, np.float32)
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    with mlflow.start_run(run_name=name, tags=tags or {}) as run, actionflow.Recorder() as recorder:
        for epoch in range(losses.shape[1]):
            signals = {"loss": losses[:, epoch], "label": labels, "prediction": predictions}
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
