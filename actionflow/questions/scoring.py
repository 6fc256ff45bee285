"""Runs queries/scores.sql over the epochs of a training, on all cores and always to the same last bit.

A sum of floating-point numbers depends on their order, and threads that share a GROUP BY add up in the order they come.
So the samples are divided among the threads, not the rows: each sample's epochs are added up by one thread, in order.
It is also a fifth faster, since the smaller tables of groups stay in the processor's cache.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from actionflow.questions import files
from actionflow.questions.engine import Engine
from actionflow.questions.files import Value

# Fewer are done before a second thread has started.
LEAST_SAMPLES_PER_THREAD = 20_000

Bounds = tuple[int | None, int | None]


def score(splits: Sequence[Sequence[Path]], empty: pa.Schema, **given: Value) -> pa.Table:
    """The scores of some splits, each given as the files of its epochs in order; the rows follow splits and samples."""
    cores = os.cpu_count() or 1
    parts = [(paths, bounds) for paths in splits for bounds in _divided(paths[-1], cores)]
    with ThreadPoolExecutor(cores) as threads:
        return pa.concat_tables(threads.map(lambda part: _score_part(part[0], part[1], empty, given), parts))


def _score_part(paths: Sequence[Path], bounds: Bounds, empty: pa.Schema, given: dict[str, Value]) -> pa.Table:
    engine = Engine(threads=1)
    engine.view_files("dynamics", paths, empty, where=_between(*bounds))
    engine.fix_names("dynamics", _names(paths[0]))
    table = engine.ask_file(files.load("scores"), **given)
    engine.close()
    return table


def _divided(path: Path, parts: int) -> list[Bounds]:
    """Ranges of sample ids with about as many samples each; open at both ends: epochs may differ in their samples."""
    with pq.ParquetFile(path) as file:
        samples = file.metadata.num_rows
        parts = max(1, min(parts, samples // LEAST_SAMPLES_PER_THREAD))
        if parts == 1:
            return [(None, None)]
        ids = file.read(["sample_id"])["sample_id"]
    inner = [ids[samples * part // parts].as_py() for part in range(1, parts)]
    return list(zip([None, *inner], [*inner, None], strict=True))


def _names(path: Path) -> dict[str, str]:
    """The run and the split that a file, and so all files of its split, are of."""
    with pq.ParquetFile(path) as file:
        row = next(file.iter_batches(1, columns=["run_id", "split"])).to_pylist()[0]
    return {name: str(value) for name, value in row.items()}


def _between(lowest: int | None, beyond: int | None) -> str:
    """The condition for ids from `lowest` on and below `beyond`.

    >>> _between(None, 50), _between(50, 90), _between(None, None)
    ('sample_id < 50', 'sample_id >= 50 and sample_id < 90', '')
    """
    conditions = [f"sample_id >= {lowest}"] if lowest is not None else []
    conditions += [f"sample_id < {beyond}"] if beyond is not None else []
    return " and ".join(conditions)
