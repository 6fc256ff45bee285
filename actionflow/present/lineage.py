"""Which run came from which: the chain of curricula behind each run."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

ARROW = " → "


def chains(runs: pa.Table) -> pa.Table:
    """One row per run, sources before what was trained on them: its name, and the way from the first run to it."""
    rows = runs.to_pylist()
    by_id = {row["run_id"]: row for row in rows}
    described = [
        {"run_id": row["run_id"], "name": row["name"], "status": row["status"], "lineage": _chain(row, by_id)}
        for row in rows
    ]
    return pa.Table.from_pylist(described) if described else runs.select(["run_id", "name", "status"])


def _chain(row: dict[str, Any], by_id: dict[str, dict[str, Any]]) -> str:
    """`baseline → easy-first.parquet → retrained`; a source that is not in the list is named by its id."""
    source = row["curriculum_run"]
    if row["curriculum"] is None:
        return str(row["name"])
    lesson = row["curriculum"].rpartition("/")[2].removesuffix(".parquet")
    before = _chain(by_id[source], by_id) if source in by_id else (source or "a file")[:8]
    return f"{before}{ARROW}[{lesson}]{ARROW}{row['name']}"
