"""A curriculum on its way into a training: fetched, checked against the data, and named in the new run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import mlflow.artifacts
import pyarrow as pa
from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag
from mlflow.exceptions import MlflowException
from mlflow.utils.mlflow_tags import MLFLOW_DATASET_CONTEXT

from actionflow.errors import DataError, SettingsError
from actionflow.store import layout, parquet, schema
from actionflow.tracking.registering import StoredDataset


@dataclass(frozen=True)
class Lessons:
    """A curriculum file and what it says of itself; a file that was not made here says nothing."""

    address: str
    table: pa.Table
    facts: dict[str, Any]
    digest: str

    @classmethod
    def fetch(cls, address: str) -> Lessons:
        """Read a curriculum from a path or an address such as `runs:/<id>/…`."""
        try:
            path = Path(mlflow.artifacts.download_artifacts(address))
        except (MlflowException, OSError) as error:
            raise SettingsError(
                f"there is no curriculum {address}: {parquet.first_line(error)[:200]} Make one with "
                "`actionflow curriculum RUN`."
            ) from error
        table = parquet.read(path)
        marked = schema.METADATA_KEY in (table.schema.metadata or {})
        facts = schema.stamp_of(table.schema, address) if marked else {}
        return cls(address, table, facts, blake2b(path.read_bytes(), digest_size=8).hexdigest())

    def check(self, dataset: StoredDataset) -> None:
        """Refuse a curriculum that was made for other data, or from samples that are not trained on."""
        known = self.facts.get("dataset_digest")
        if known is not None and known != dataset.digest:
            raise DataError(
                f"the curriculum {self.address} is for other data: its data set's digest is {known} "
                f"({self.facts.get('dataset')}), this data's is {dataset.digest} ({dataset.name})."
            )
        split = self.facts.get("split", "train")
        if split != "train":
            raise DataError(f"the curriculum {self.address} orders split {split}: only train can be trained on.")

    def register(self, client: MlflowClient, run_id: str) -> None:
        """Leave the way back in the run: tags for people, an input for MLflow."""
        client.set_tag(run_id, layout.TAG_CURRICULUM, self.address)
        if "run_id" in self.facts:
            client.set_tag(run_id, layout.TAG_CURRICULUM_RUN, self.facts["run_id"])
        told = {name: self.facts[name] for name in ("run_id", "query", "parameters") if name in self.facts}
        dataset = Dataset(
            name="curriculum",
            digest=self.digest,
            source_type="code",
            source=json.dumps({"tags": {"address": self.address, **told}}),
            profile=json.dumps({"samples": self.table.num_rows}),
        )
        client.log_inputs(run_id, datasets=[DatasetInput(dataset, [InputTag(MLFLOW_DATASET_CONTEXT, "curriculum")])])
