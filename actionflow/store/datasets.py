"""The samples of a data set, stored once per experiment: in a run of its own that every training points to.

A hundred trainings on CIFAR-10 must not carry the same 60,000 pictures a hundred times. The run is found by the data
set's digest; when somebody deletes it, the next training makes it anew, and the numbers of the old ones stay whole.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from mlflow import MlflowClient
from mlflow.entities import Run, RunStatus
from mlflow.utils.time import get_current_time_millis

from actionflow.store import layout, schema
from actionflow.store.sending import Sender

Parts = dict[str, pa.Table]


def dataset_run(
    client: MlflowClient, experiment_id: str, name: str, digest: str, make_parts: Callable[[], Parts]
) -> str:
    """The id of the run that holds this data set's samples; made now if the experiment has none.

    `make_parts` is called only then: it returns a samples table for each part of the data set.
    """
    found = _find(client, experiment_id, digest)
    if found:
        return str(found[0].info.run_id)
    made = _make(client, experiment_id, name, digest, make_parts())
    # Two trainings may have started together: the older run stays, ours goes.
    first = str(_find(client, experiment_id, digest)[0].info.run_id)
    if first != made:
        client.delete_run(made)
    return first


def samples_table(
    name: str, digest: str, part: str, columns: dict[str, pa.Array], metadata: dict[str, pa.Array]
) -> pa.Table:
    """A samples table in the house schema; columns of the user's own come last."""
    rows = len(columns["sample_id"])
    known = {
        "dataset": schema.constant(name, rows),
        "digest": schema.constant(digest, rows),
        "part": schema.constant(part, rows),
        **columns,
    }
    house = [field for field in schema.SAMPLES if field.name in known]
    table = pa.table({field.name: pa.array(known[field.name]).cast(field.type) for field in house})
    for column, values in metadata.items():
        if column not in known:
            table = table.append_column(column, values)
    return table


def _find(client: MlflowClient, experiment_id: str, digest: str) -> list[Run]:
    return list(
        client.search_runs(
            [experiment_id],
            f"tags.`{layout.TAG_KIND}` = 'dataset' and tags.`{layout.TAG_DIGEST}` = '{digest}' and status = 'FINISHED'",
            order_by=["attributes.start_time ASC", "attributes.run_id ASC"],
            max_results=1,
        )
    )


def _make(client: MlflowClient, experiment_id: str, name: str, digest: str, parts: Parts) -> str:
    tags = {
        layout.TAG_KIND: "dataset",
        layout.TAG_DATASET: name,
        layout.TAG_DIGEST: digest,
        layout.TAG_SCHEMA: str(schema.SCHEMA_VERSION),
    }
    run_id: str = client.create_run(
        experiment_id, get_current_time_millis(), tags, run_name=f"dataset {name} {digest[:6]}"
    ).info.run_id
    sender = Sender(run_id, client)
    for part, table in parts.items():
        sender.send_table(f"{layout.SAMPLES}/{part}.parquet", schema.stamp(table, "samples"))
    sender.close()
    client.set_terminated(run_id, RunStatus.to_string(RunStatus.FINISHED))
    return run_id
