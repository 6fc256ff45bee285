"""What MLflow's own pages show of a run: tables with thumbnails, and pictures that have a slider."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Param, RunStatus, RunTag
from mlflow.exceptions import MlflowException
from PIL import Image

from actionflow.errors import StoreError
from actionflow.store import parquet
from actionflow.store.sending import Sender

# Where MLflow looks for the pictures of tables, and for those with steps.
TABLE_IMAGES, STEPPED_IMAGES = "table_images", "images"
# The side of what a table shows; the whole picture opens when it is clicked.
THUMBNAIL = 96


@contextmanager
def told(client: MlflowClient, what: str) -> Iterator[None]:
    """A server that does not take something is told in one line."""
    try:
        yield
    except (MlflowException, OSError) as error:
        raise StoreError(
            f"MLflow at {client.tracking_uri} did not take the {what}: {parquet.first_line(error)[:300]}"
        ) from error


@contextmanager
def kept_in_a_run(client: MlflowClient, what: str, experiment_id: str, run_id: str | None = None) -> Iterator[str]:
    """The id of a run to keep an answer in: the one that is open already, or a new one that ends with the block."""
    # MLflow prints the run's address on standard output, which is for data.
    with told(client, what), redirect_stdout(sys.stderr):
        target = run_id or str(client.create_run(experiment_id).info.run_id)
        try:
            yield target
        except BaseException:
            client.set_terminated(target, RunStatus.to_string(RunStatus.FAILED))
            raise
        if run_id is None:
            client.set_terminated(target)


def introduce(
    client: MlflowClient, run_id: str, name: str, params: Mapping[str, Any], tags: Mapping[str, str | None]
) -> None:
    """Say what a run is; parameters that `mlflow run` has logged already stay as they are."""
    client.update_run(run_id, name=name)
    known = client.get_run(run_id).data.params
    new = [Param(key, str(value)) for key, value in params.items() if key not in known]
    client.log_batch(run_id, params=new, tags=[RunTag(key, value) for key, value in tags.items() if value])


def log_table(client: MlflowClient, run_id: str, columns: Mapping[str, Sequence[Any]], artifact: str) -> None:
    """MLflow adds rows to a table that is there already; an answer that is asked for again takes its place."""
    if artifact not in [info.path for info in client.list_artifacts(run_id)]:
        client.log_table(run_id, dict(columns), artifact)
        return
    rows = [list(row) for row in zip(*columns.values(), strict=True)]
    client.log_dict(run_id, {"columns": list(columns), "data": rows}, artifact)


def log_table_images(client: MlflowClient, run_id: str, images: Sequence[Image.Image], table: str) -> list[Any]:
    """Keep the pictures of a table's rows; return the cells that show them.

    MLflow itself would give them new names each time, and send them one by one: here they are replaced, together.
    """
    with tempfile.TemporaryDirectory() as folder:
        for place, image in enumerate(images):
            image.save(Path(folder) / f"{place:03d}.png")
            small = image.copy()
            small.thumbnail((THUMBNAIL, THUMBNAIL))
            small.save(Path(folder) / f"{place:03d}.webp", lossless=True)
        client.log_artifacts(run_id, folder, f"{TABLE_IMAGES}/{table}")
    paths = [f"{TABLE_IMAGES}/{table}/{place:03d}" for place in range(len(images))]
    return [{"type": "image", "filepath": f"{p}.png", "compressed_filepath": f"{p}.webp"} for p in paths]


def log_stepped_images(client: MlflowClient, run_id: str, images: Mapping[int, Image.Image], key: str) -> None:
    """Pictures by step, in place of those that an earlier time left under this key."""
    sender = Sender(run_id, client)
    for info in client.list_artifacts(run_id, STEPPED_IMAGES):
        if Path(info.path).name.startswith(f"{key}+step+"):
            sender.delete(info.path)
    for step, image in images.items():
        client.log_image(run_id, image, key=key, step=step, synchronous=True)
