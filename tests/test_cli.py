"""What people type, and what comes back on stdout and on stderr."""

import json
import subprocess
import sys

import made_up_runs
import mlflow
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from conftest import PROJECT
from made_up_runs import keep

import actionflow
from actionflow.errors import ActionFlowError
from actionflow.store import schema


@pytest.fixture(scope="module")
def runs(module_store):
    """Two runs of three samples: sample 2 is the hardest of `first`, sample 1 of `second`."""
    logits = {"first": [[4.0, 0.0], [3.0, 0.0], [0.0, 1.0]], "second": [[4.0, 0.0], [0.0, 1.0], [3.0, 0.0]]}
    return {name: record(name, batch) for name, batch in logits.items()}


def record(name, logits, epochs=2):
    with mlflow.start_run(run_name=name) as run, actionflow.Recorder() as recorder:
        for _ in range(epochs):
            recorder.add([0, 1, 2], logits, [0, 0, 0])
            recorder.end_epoch()
    return run.info.run_id


@pytest.fixture
def ask(module_store, runs):
    """Type a command in a process of its own."""

    def typed(*words, stdin=None):
        return subprocess.run(
            [sys.executable, "-m", "actionflow.cli", *words],
            capture_output=True,
            text=True,
            input=stdin,
            env=module_store.outside(),
            cwd=PROJECT,
        )

    return typed


def test_a_pipe_gets_csv(ask):
    done = ask("hardest", "first", "-k", "2")
    head, *rows = done.stdout.splitlines()
    assert head.split(",")[3] == '"sample_id"'
    assert [row.split(",")[3] for row in rows] == ["2", "1"]
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_the_same_rows_in_every_format(ask, tmp_path, form):
    path = tmp_path / f"rows.{form}"
    assert ask("scores", "first", "--output", str(path)).returncode == 0
    read = {
        "csv": lambda: pyarrow.csv.read_csv(path).to_pylist(),
        "json": lambda: json.loads(path.read_text()),
        "parquet": lambda: pq.read_table(path).to_pylist(),
    }
    assert [row["sample_id"] for row in read[form]()] == [0, 1, 2]


def test_a_table_for_people(ask):
    lines = ask("hardest", "first", "-k", "1", "--format", "table").stdout.splitlines()
    assert "hardness_rank" in lines[0]
    assert set(lines[1]) <= {"─", " "}


def test_sql_from_the_command_line_and_from_stdin(ask):
    asked = "select count(*) as n from dynamics"
    assert ask("sql", asked, "--runs", "first").stdout.splitlines() == ['"n"', "6"]
    assert ask("sql", "-", "--runs", "first", stdin=asked).stdout.splitlines() == ['"n"', "6"]


def test_several_runs_are_named_with_commas(ask, runs):
    asked = "select name from runs order by name"
    for words in (["--runs", "first,second"], ["--runs", f"{runs['first'][:8]}, second"], ["--runs", "second,first,"]):
        assert ask("sql", asked, *words).stdout.split() == ['"name"', '"first"', '"second"'], words
    both = "attributes.run_id in ('{first}','{second}')".format(**runs)
    assert ask("sql", asked, "--runs", both).stdout.split() == ['"name"', '"first"', '"second"']
    unknown = ask("hardest", "first,secnd")
    assert unknown.stderr.startswith("Error: no run is called secnd in ")
    assert "Did you mean second?" in unknown.stderr


def test_a_name_with_a_comma_is_a_name(ask, runs):
    record("first,second", [[4.0, 0.0], [3.0, 0.0], [0.0, 1.0]])
    assert ask("sql", "select name from runs", "--runs", "first,second").stdout.split("\n")[1] == '"first,second"'


def test_the_hardest_texts_are_read(ask, module_store, runs):
    texts = ["short", "a long one\n" + "x" * 100, None]
    tags = keep(module_store, "words", {"sample_id": [0, 1, 2], "text": texts})
    made_up_runs.record("texts", [[1.0], [3.0], [2.0]], [0, 0, 0], [0, 0, 0], tags)
    shown = json.loads(ask("hardest", "texts", "--format", "json").stdout)
    assert [row["text"] for row in shown] == ["a long one\n" + "x" * 49 + "…", None, "short"]
    assert list(shown[0])[-1] == "text"
    both = json.loads(ask("hardest", "first", "texts", "-k", "1", "--format", "json").stdout)
    assert {row["run_id"] == runs["first"]: row["text"] is None for row in both} == {True: True, False: False}
    assert "a long one xxx" in ask("hardest", "texts", "--format", "table").stdout
    assert "text" not in json.loads(ask("hardest", "first", "--format", "json").stdout)[0]


def test_a_query_takes_runs_by_name(ask):
    done = ask("query", "run_correlation", "-p", "run_a=first", "-p", "run_b=second", "--format", "json")
    assert json.loads(done.stdout)[0]["samples"] == 3


def test_queries_are_listed_shown_and_explained(ask):
    assert "hardest" in ask("query", "--list").stdout
    assert ask("query", "hardest", "--show").stdout.strip() == (PROJECT / "queries" / "hardest.sql").read_text().strip()
    assert "ROW_NUMBER" in ask("query", "hardest", "--explain", "--run", "first").stdout.upper()


def test_a_folder_of_ones_own_is_found_beside_the_house(ask, tmp_path):
    (tmp_path / "how_many.sql").write_text(
        "-- How many samples.\n--\n-- returns  n\n\nselect count(*) as n from scores\n"
    )
    assert ask("query", "how_many", "--queries", str(tmp_path), "--run", "first").stdout.splitlines() == ['"n"', "3"]
    assert "How many samples." in ask("query", "--list", "--queries", str(tmp_path)).stdout
    assert ask("query", "hardest", "--queries", str(tmp_path), "--run", "first").returncode == 0


MISTAKES = {
    "unknown run": (["hardest", "frist"], "no run is called frist .*Did you mean first"),
    "unknown query": (["query", "hardst"], "there is no query hardst .*Did you mean hardest"),
    "unknown parameter": (["query", "hardest", "-p", "kk=3"], "query hardest has no parameter kk"),
    "missing parameter": (["query", "run_correlation", "-p", "run_a=first"], "needs run_b: give it as -p run_b="),
    "no equals sign": (["query", "hardest", "-p", "k"], "a parameter is written -p name=value, found 'k'"),
    "no such folder": (["query", "x", "--queries", "/nowhere"], "there is no folder /nowhere"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_on_stderr(ask, mistake):
    import re

    words, said = MISTAKES[mistake]
    done = ask(*words)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.match(f"Error: .*{said}", done.stderr), done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_error_in_sql_is_duckdbs_message_with_the_line_marked(ask):
    done = ask("sql", "select actoin from scores", "--runs", "first")
    assert done.returncode == 1
    assert "LINE 1: select actoin from scores" in done.stderr
    assert "^" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_empty_result_is_no_mistake_and_is_said(ask):
    done = ask("sql", "select * from scores where split = 'none'", "--runs", "first")
    assert (done.returncode, done.stderr) == (0, "No rows.\n")


def test_python_asks_by_name_and_in_sql(runs):
    by_name = actionflow.query("run_correlation", run_a="first", run_b="second").to_pandas()
    assert by_name["samples"][0] == 3
    assert actionflow.query("select count(*) as n from scores", runs="first").to_pylist() == [{"n": 3}]


def test_a_file_of_a_newer_schema_is_refused(module_store):
    run_id = record("newer", [[1.0, 0.0]] * 3)
    for path in (module_store.artifacts(run_id) / "actionflow").rglob("*.parquet"):
        table = pq.read_table(path)
        stamp = schema.stamp_of(table.schema, "x") | {"schema_version": 99}
        pq.write_table(table.replace_schema_metadata({schema.METADATA_KEY: json.dumps(stamp)}), path)
    for question in ("select * from scores", "select * from dynamics"):
        with pytest.raises(ActionFlowError, match=r"has schema version 99, this ActionFlow reads up to 1"):
            actionflow.query(question, runs=run_id)


def test_a_truncated_file_in_the_middle_is_named(module_store):
    run_id = record("truncated", [[1.0, 0.0]] * 3, epochs=3)
    path = module_store.artifacts(run_id) / "actionflow/dynamics/val/epoch-0001.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ActionFlowError, match=r"epoch-0001\.parquet"):
        actionflow.query("select sum(loss) from dynamics", runs=run_id)
