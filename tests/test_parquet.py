"""Parquet files: encodings that suit training dynamics, whole or not at all, and errors that name the file."""

from __future__ import annotations

import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from actionflow.capture import EpochRecorder
from actionflow.errors import StoreError
from actionflow.store import parquet, schema
from actionflow.store.writing import conform


@pytest.fixture
def epoch():
    """An epoch of three samples, as a run stores it."""
    recorder = EpochRecorder("val", 4)
    recorder.add([2, 0, 1], [[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]], [0, 0, 0])
    return schema.stamp(conform(recorder.table(), "run-a"), "dynamics")


@pytest.fixture
def columns(epoch, tmp_path):
    """How each column of that epoch lies in its file."""
    parquet.write(epoch, tmp_path / "epoch.parquet")
    group = pq.ParquetFile(tmp_path / "epoch.parquet").metadata.row_group(0)
    return {group.column(n).path_in_schema: group.column(n) for n in range(group.num_columns)}


# What is written


def test_a_table_comes_back_as_it_was(epoch, tmp_path):
    parquet.write(epoch, tmp_path / "epoch.parquet")
    assert parquet.read(tmp_path / "epoch.parquet").cast(epoch.schema).equals(epoch)


def test_the_stamp_comes_back_too(epoch, tmp_path):
    parquet.write(epoch, tmp_path / "epoch.parquet")
    assert schema.stamp_of(parquet.read_schema(tmp_path / "epoch.parquet"), "it")["kind"] == "dynamics"


def test_nulls_come_back_as_nulls(tmp_path):
    table = pa.table({"sample_id": [1, 2], "entropy": pa.array([None, 0.5], pa.float32())})
    parquet.write(table, tmp_path / "t.parquet")
    assert parquet.read(tmp_path / "t.parquet").to_pydict() == table.to_pydict()


def test_a_signal_that_a_task_lacks_stays_null(tmp_path):
    recorder = EpochRecorder("val", 0)
    recorder.add_signals([1], {"loss": [0.5]})
    parquet.write(conform(recorder.table(), "run-a"), tmp_path / "t.parquet")
    assert parquet.read(tmp_path / "t.parquet", ["loss", "entropy"]).to_pylist() == [{"loss": 0.5, "entropy": None}]


def test_every_column_is_compressed_with_zstd(columns):
    assert {column.compression for column in columns.values()} == {"ZSTD"}


@pytest.mark.parametrize("name", ["loss", "confidence", "entropy", "margin", "el2n"])
def test_floats_are_split_into_streams_of_bytes(columns, name):
    assert "BYTE_STREAM_SPLIT" in columns[name].encodings


@pytest.mark.parametrize("name", ["sample_id", "label", "prediction"])
def test_whole_numbers_are_packed_as_differences(columns, name):
    assert "DELTA_BINARY_PACKED" in columns[name].encodings


@pytest.mark.parametrize("name", ["run_id", "split", "epoch"])
def test_what_a_file_says_in_every_row_is_a_dictionary(columns, name):
    assert columns[name].has_dictionary_page


@pytest.mark.parametrize("name", ["run_id", "split", "epoch", "sample_id"])
def test_engines_can_skip_files_by_what_they_are_of(columns, name):
    assert columns[name].statistics.has_min_max


def test_losses_carry_no_statistics(columns):
    assert not columns["loss"].is_stats_set


def test_columns_without_nulls_are_required(columns, epoch, tmp_path):
    file = pq.ParquetFile(tmp_path / "epoch.parquet")
    assert {file.schema.column(n).max_definition_level for n in range(len(file.schema))} == {0}


def test_vectors_and_pictures_can_be_written_too(tmp_path):
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([1.0, 2.0, 3.0, 4.0], pa.float32()), 2)
    table = pa.table({"sample_id": [1, 2], "feature": vectors, "image": [b"png", None]})
    parquet.write(table, tmp_path / "t.parquet")
    assert parquet.read(tmp_path / "t.parquet").to_pydict() == table.to_pydict()


# Whole or not at all


def test_folders_are_made_and_nothing_else_is_left_in_them(epoch, tmp_path):
    parquet.write(epoch, tmp_path / "a" / "b" / "epoch.parquet")
    assert os.listdir(tmp_path / "a" / "b") == ["epoch.parquet"]


def test_writing_again_replaces_the_file(epoch, tmp_path):
    parquet.write(epoch, tmp_path / "epoch.parquet")
    parquet.write(epoch.slice(0, 1), tmp_path / "epoch.parquet")
    assert parquet.read(tmp_path / "epoch.parquet").num_rows == 1


# A table of 800 kB in a process that may write 100 kB: the kernel fails the write half-way, as a full disk does.
WRITE_TOO_MUCH = """
import resource, signal, sys
from pathlib import Path
import numpy as np, pyarrow as pa
from actionflow.errors import StoreError
from actionflow.store import parquet

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
try:
    parquet.write(pa.table({"loss": np.random.default_rng(0).random(100_000)}), Path(sys.argv[1]))
except StoreError as error:
    print(error)
"""


def write_too_much(path):
    """What a process that may not write so much says."""
    done = subprocess.run(
        [sys.executable, "-c", WRITE_TOO_MUCH, str(path)], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


def test_a_write_that_fails_half_way_leaves_nothing(tmp_path):
    told = write_too_much(tmp_path / "epoch.parquet")
    assert told.startswith(f"cannot write {tmp_path / 'epoch.parquet'}: ")
    assert told.endswith("File too large. Nothing of this file was kept.")
    assert os.listdir(tmp_path) == []


def test_a_write_that_fails_half_way_leaves_the_file_that_was_there(epoch, tmp_path):
    parquet.write(epoch, tmp_path / "epoch.parquet")
    write_too_much(tmp_path / "epoch.parquet")
    assert parquet.read(tmp_path / "epoch.parquet").cast(epoch.schema).equals(epoch)
    assert os.listdir(tmp_path) == ["epoch.parquet"]


def test_a_folder_that_is_a_file_is_told(epoch, tmp_path):
    (tmp_path / "val").write_text("not a folder")
    with pytest.raises(StoreError, match=r"^cannot write .*val/epoch\.parquet: "):
        parquet.write(epoch, tmp_path / "val" / "epoch.parquet")


# Reading


def test_a_torn_file_is_told_by_name(epoch, tmp_path):
    path = tmp_path / "epoch-0004.parquet"
    parquet.write(epoch, path)
    path.write_bytes(path.read_bytes()[:-20])
    for read in (parquet.read, parquet.read_schema):
        with pytest.raises(StoreError, match=r"^.*epoch-0004\.parquet is not a whole Parquet file: [^\n]+$"):
            read(path)


def test_an_empty_file_is_told_by_name(tmp_path):
    (tmp_path / "epoch.parquet").touch()
    with pytest.raises(StoreError, match=r"epoch\.parquet is not a whole Parquet file"):
        parquet.read(tmp_path / "epoch.parquet")


def test_damage_inside_a_file_is_told_by_name(tmp_path):
    path = tmp_path / "epoch.parquet"
    parquet.write(pa.table({"sample_id": list(range(5000))}), path)
    content = bytearray(path.read_bytes())
    content[40:140] = bytes(100)
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"epoch\.parquet is not a whole Parquet file"):
        parquet.read(path)


def test_a_file_that_is_not_there_is_told_by_name(tmp_path):
    with pytest.raises(StoreError, match=r"^there is no file .*epoch\.parquet\.$"):
        parquet.read(tmp_path / "epoch.parquet")


def test_columns_that_are_not_there_are_told_with_those_that_are(tmp_path):
    parquet.write(pa.table({"sample_id": [1], "loss": [0.5]}), tmp_path / "t.parquet")
    with pytest.raises(StoreError, match=r"has no column action \(found: sample_id, loss\)"):
        parquet.read(tmp_path / "t.parquet", ["sample_id", "action"])


def test_names_of_folders_never_become_columns(epoch, tmp_path):
    """pyarrow takes `seed=1` for a partition."""
    parquet.write(epoch, tmp_path / "seed=1" / "epoch.parquet")
    assert parquet.read(tmp_path / "seed=1" / "epoch.parquet").column_names == epoch.column_names
