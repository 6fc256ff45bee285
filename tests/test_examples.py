"""Every file in examples/ runs as its docstring says, and its run can be asked."""

import subprocess
import sys

import pytest
from conftest import PROJECT

import actionflow

EXAMPLES = sorted((PROJECT / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_its_run_can_be_asked(store, example, tmp_path):
    done = subprocess.run(
        [sys.executable, example],
        env=store.outside(PYTHONPATH=str(PROJECT)),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    (run,) = store.runs()
    assert run.info.status == "FINISHED"
    hardest = actionflow.query("hardest", run.info.run_id, k=1).to_pylist()
    assert str(hardest[0]["sample_id"]) in done.stdout.split()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_and_says_how_to_run_it(example):
    text = example.read_text()
    assert len(text.splitlines()) < 60
    assert f"python examples/{example.name}" in text.split('"""')[1]
