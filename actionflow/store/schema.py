"""The file schema, written down once.

Every file describes itself: `run_id`, `split` and (where it applies) `epoch` are ordinary columns, and the schema's
metadata carries the version under the key `actionflow`. Readers of version n read all versions up to n.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from actionflow.errors import StoreError

SCHEMA_VERSION = 1
METADATA_KEY = b"actionflow"

# Strings that hold one value per file cost nothing when they are dictionaries.
NAME = pa.dictionary(pa.int32(), pa.string())

DYNAMICS = pa.schema(
    [
        pa.field("run_id", NAME, nullable=False),
        pa.field("split", NAME, nullable=False),
        pa.field("epoch", pa.int32(), nullable=False),
        pa.field("sample_id", pa.int64(), nullable=False),
        pa.field("label", pa.int32()),
        pa.field("loss", pa.float32()),
        pa.field("prediction", pa.int32()),
        pa.field("correct", pa.bool_()),
        pa.field("confidence", pa.float32()),
        pa.field("entropy", pa.float32()),
        pa.field("margin", pa.float32()),
        pa.field("el2n", pa.float32()),
        pa.field("forgotten", pa.bool_()),
    ]
)

SAMPLES = pa.schema(
    [
        pa.field("dataset", NAME, nullable=False),
        pa.field("digest", NAME, nullable=False),
        pa.field("part", NAME, nullable=False),
        pa.field("sample_id", pa.int64(), nullable=False),
        pa.field("key", pa.string()),
        pa.field("label", pa.int32()),
        pa.field("label_name", NAME),
        pa.field("image", pa.binary()),
        # What is read (a sentence, a question), what it is read beside (a premise, a passage), what was asked for.
        pa.field("text", pa.string()),
        pa.field("context", pa.string()),
        pa.field("target_text", pa.string()),
    ]
)

SCORES = pa.schema(
    [
        pa.field("run_id", NAME, nullable=False),
        pa.field("split", NAME, nullable=False),
        pa.field("sample_id", pa.int64(), nullable=False),
        pa.field("label", pa.int32()),
        pa.field("prediction", pa.int32()),
        pa.field("correct", pa.bool_()),
        pa.field("epochs_seen", pa.int32(), nullable=False),
        pa.field("action", pa.float64()),
        pa.field("action_mean", pa.float64()),
        pa.field("action_variance", pa.float64()),
        pa.field("last_loss", pa.float32()),
        pa.field("entropy", pa.float32()),
        pa.field("confidence", pa.float64()),
        pa.field("variability", pa.float64()),
        pa.field("correctness", pa.float64()),
        pa.field("aum", pa.float64()),
        pa.field("forgetting", pa.int32()),
        pa.field("ever_learnt", pa.bool_()),
        pa.field("el2n", pa.float64()),
        # Of trainings that were asked for them: no epoch's file has what they are made of.
        pa.field("vog", pa.float64()),
        pa.field("vog_early", pa.float64()),
        pa.field("vog_late", pa.float64()),
        pa.field("grand", pa.float64()),
    ]
)


CURRICULUM = pa.schema(
    [
        pa.field("run_id", NAME, nullable=False),
        pa.field("name", NAME, nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("sample_id", pa.int64(), nullable=False),
        pa.field("score", pa.float64()),
        pa.field("stage", pa.int64(), nullable=False),
    ]
)

# What a model that writes, or points at words, said when it was last asked; a task fills what it has.
OUTPUTS = pa.schema(
    [
        pa.field("run_id", NAME, nullable=False),
        pa.field("split", NAME, nullable=False),
        pa.field("sample_id", pa.int64(), nullable=False),
        pa.field("predicted_text", pa.string()),
        pa.field("tokens", pa.list_(pa.string())),
        pa.field("token_losses", pa.list_(pa.float32())),
        pa.field("rouge1", pa.float32()),
        pa.field("rouge2", pa.float32()),
        pa.field("rougeL", pa.float32()),
    ]
)

# The samples of a split by their loss curves; clusters are numbered from the easiest on.
CLUSTERS = pa.schema(
    [
        pa.field("run_id", NAME, nullable=False),
        pa.field("split", NAME, nullable=False),
        pa.field("sample_id", pa.int64(), nullable=False),
        pa.field("cluster", pa.int32(), nullable=False),
        pa.field("cluster_name", NAME, nullable=False),
        pa.field("distance", pa.float64(), nullable=False),
    ]
)

# What an audit says of the labels of a split, most suspicious first.
AUDITS = pa.schema(
    [
        pa.field("run_id", NAME, nullable=False),
        pa.field("split", NAME, nullable=False),
        pa.field("suspect_rank", pa.int64(), nullable=False),
        pa.field("sample_id", pa.int64(), nullable=False),
        pa.field("label", pa.int32(), nullable=False),
        pa.field("suggested", pa.int32()),
        pa.field("score_name", NAME, nullable=False),
        pa.field("score", pa.float64(), nullable=False),
        pa.field("chance_wrong", pa.float64()),
        pa.field("suspect", pa.bool_(), nullable=False),
    ]
)

# A step of a rule, as programs read it: a feature or attribute, above a threshold or at most there.
CONDITION = pa.struct(
    [
        pa.field("feature", pa.int32(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("above", pa.bool_(), nullable=False),
        pa.field("threshold", pa.float64(), nullable=False),
    ]
)

# The leaves of the tree of every class, grouping and depth; a class that is not explained has one row, without a leaf
# and with a reason. Figures are of the half that no tree has seen, those called fitted of the other.
FAILURE_MODES = pa.schema(
    [
        pa.field("run_id", NAME, nullable=False),
        pa.field("split", NAME, nullable=False),
        pa.field("target", NAME, nullable=False),
        pa.field("grouping", NAME, nullable=False),
        pa.field("depth", pa.int32(), nullable=False),
        pa.field("label", pa.int32()),
        pa.field("leaf", pa.int32()),
        pa.field("mode_rank", pa.int64()),
        pa.field("rule", pa.string()),
        pa.field("conditions", pa.list_(CONDITION)),
        pa.field("samples", pa.int64(), nullable=False),
        pa.field("failures", pa.int64(), nullable=False),
        pa.field("er", pa.float64()),
        pa.field("ec", pa.float64()),
        pa.field("iv", pa.float64()),
        pa.field("ber", pa.float64()),
        pa.field("aler", pa.float64()),
        pa.field("gain", pa.float64()),
        pa.field("fitted_er", pa.float64()),
        pa.field("fitted_ec", pa.float64()),
        pa.field("fitted_iv", pa.float64()),
        pa.field("fitted_ber", pa.float64()),
        pa.field("fitted_gain", pa.float64()),
        pa.field("found", pa.bool_()),
        pa.field("holds", pa.bool_()),
        pa.field("chance_gain", pa.float64()),
        pa.field("chance_valid", pa.float64()),
        pa.field("beaten", pa.float64()),
        pa.field("reason", pa.string()),
    ]
)

# Which samples fall in each leaf; `fitted` are those of the half that the tree was fitted on.
FAILURE_MEMBERS = pa.schema(
    [
        pa.field("run_id", NAME, nullable=False),
        pa.field("split", NAME, nullable=False),
        pa.field("sample_id", pa.int64(), nullable=False),
        pa.field("grouping", NAME, nullable=False),
        pa.field("depth", pa.int32(), nullable=False),
        pa.field("label", pa.int32()),
        pa.field("leaf", pa.int32()),
        pa.field("failed", pa.bool_(), nullable=False),
        pa.field("fitted", pa.bool_()),
    ]
)

# What people say of samples. Files are JSON, one for each time somebody marks; this is how they read as rows.
MARKS = pa.schema(
    [
        pa.field("experiment_id", pa.string(), nullable=False),
        pa.field("dataset_digest", pa.string(), nullable=False),
        pa.field("sample_id", pa.int64(), nullable=False),
        pa.field("mark", pa.string(), nullable=False),
        pa.field("right_label", pa.int32()),
        pa.field("note", pa.string()),
        pa.field("marked_by", pa.string(), nullable=False),
        pa.field("marked_at", pa.timestamp("us"), nullable=False),
    ]
)

# What people say of a scenario's samples; `sample` is null where they say it of all that were shown.
SCENARIO_LABELS = pa.schema(
    [
        pa.field("experiment_id", pa.string(), nullable=False),
        pa.field("distill_run", pa.string(), nullable=False),
        pa.field("scenario", pa.int32(), nullable=False),
        pa.field("sample", pa.int32()),
        pa.field("answer", pa.string(), nullable=False),
        pa.field("label", pa.int32()),
        pa.field("labelled_by", pa.string(), nullable=False),
        pa.field("labelled_at", pa.timestamp("us"), nullable=False),
    ]
)

# Not a file: what the view `runs` shows of MLflow's own store.
RUNS = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("experiment", pa.string()),
        pa.field("status", pa.string()),
        pa.field("start_time", pa.timestamp("ms")),
        pa.field("dataset", pa.string()),
        pa.field("dataset_digest", pa.string()),
        pa.field("model", pa.string()),
        pa.field("seed", pa.string()),
        pa.field("epochs", pa.float64()),
        pa.field("val_accuracy", pa.float64()),
        pa.field("curriculum", pa.string()),
        pa.field("curriculum_run", pa.string()),
        pa.field("params", pa.map_(pa.string(), pa.string())),
        pa.field("metrics", pa.map_(pa.string(), pa.float64())),
    ]
)


def features_schema(width: int) -> pa.Schema:
    """The schema of a features file whose vectors have `width` numbers."""
    return pa.schema(
        [
            pa.field("run_id", NAME, nullable=False),
            pa.field("split", NAME, nullable=False),
            pa.field("sample_id", pa.int64(), nullable=False),
            pa.field("feature", pa.list_(pa.float32(), width), nullable=False),
        ]
    )


def counterexamples_schema(code: int) -> pa.Schema:
    """The schema of a file of counterexamples whose codes have so many numbers."""
    return pa.schema(
        [
            pa.field("run_id", NAME, nullable=False),  # the classifier's
            pa.field("identify_run", NAME, nullable=False),
            pa.field("counterexample", pa.int64(), nullable=False),
            pa.field("sample_id", pa.int64(), nullable=False),
            pa.field("label", pa.int32(), nullable=False),
            pa.field("prediction", pa.int32(), nullable=False),
            pa.field("confidence", pa.float32(), nullable=False),
            pa.field("code", pa.list_(pa.float32(), code), nullable=False),
            pa.field("image", pa.binary(), nullable=False),
        ]
    )


def scenarios_schema(code: int) -> pa.Schema:
    """The schema of a file of scenarios whose codes have so many numbers: regions where a classifier fails."""
    counted = pa.list_(pa.struct([("label", pa.int32()), ("samples", pa.int64())]))
    return pa.schema(
        [
            pa.field("run_id", NAME, nullable=False),  # the classifier's
            pa.field("distill_run", NAME, nullable=False),
            pa.field("identify_run", NAME, nullable=False),
            pa.field("scenario", pa.int32(), nullable=False),
            pa.field("weight", pa.float64(), nullable=False),
            pa.field("size", pa.int64(), nullable=False),
            pa.field("source_label", pa.int32(), nullable=False),
            pa.field("source_share", pa.float64(), nullable=False),
            pa.field("source_labels", counted, nullable=False),
            pa.field("prediction", pa.int32(), nullable=False),
            pa.field("predictions", counted, nullable=False),
            pa.field("counterexamples", pa.list_(pa.int64()), nullable=False),
            pa.field("mean", pa.list_(pa.float64(), code), nullable=False),
            pa.field("covariance", pa.list_(pa.float64(), code * code if code > 0 else -1), nullable=False),
            pa.field("sample_images", pa.list_(pa.binary()), nullable=False),
            pa.field("sample_predictions", pa.list_(pa.int32()), nullable=False),
            pa.field("sample_confidences", pa.list_(pa.float32()), nullable=False),
        ]
    )


def pixels_schema(pixels: int) -> pa.Schema:
    """The schema of a pixels file whose images have so many; their height and width stand in its metadata."""
    return pa.schema(
        [
            pa.field("run_id", NAME, nullable=False),
            pa.field("split", NAME, nullable=False),
            pa.field("sample_id", pa.int64(), nullable=False),
            pa.field("action", pa.list_(pa.float32(), pixels), nullable=False),
        ]
    )


def filled(table: pa.Table, wanted: pa.Schema) -> pa.Table:
    """A table in a schema: its columns cast, those that it lacks null, and no others."""
    columns = [
        table[field.name].cast(field.type) if field.name in table.column_names else pa.nulls(table.num_rows, field.type)
        for field in wanted
    ]
    return pa.table(columns, schema=wanted)


def constant(value: str, length: int) -> pa.DictionaryArray:
    """A column that says the same name in every row."""
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), length), pa.array([value]))


def stamp(table: pa.Table, kind: str, **facts: Any) -> pa.Table:
    """Write the schema version, the kind of file and further facts into the table's metadata."""
    content = {"schema_version": SCHEMA_VERSION, "kind": kind, **facts}
    return table.replace_schema_metadata({METADATA_KEY: json.dumps(content).encode()})


def stamp_of(schema: pa.Schema, name: str) -> dict[str, Any]:
    """Read what `stamp` wrote; refuse a file of a version that this ActionFlow does not know."""
    raw = (schema.metadata or {}).get(METADATA_KEY)
    if raw is None:
        raise StoreError(f"{name} was not written by ActionFlow (no 'actionflow' entry in its schema's metadata).")
    content: dict[str, Any] = json.loads(raw)
    if content["schema_version"] > SCHEMA_VERSION:
        raise StoreError(
            f"{name} has schema version {content['schema_version']}, this ActionFlow reads up to {SCHEMA_VERSION}: "
            "upgrade it with `pip install -U actionflow`."
        )
    return content
