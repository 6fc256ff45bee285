"""Runs are found by what people type."""

import mlflow
import pytest

import actionflow
from actionflow.errors import StoreError
from actionflow.store.finding import find_runs


@pytest.fixture(scope="module")
def recorded(module_store):
    """Runs `one` and `two` of model a, `three` of model b in another experiment, and a run that recorded nothing."""
    mlflow.set_experiment("others")
    ids = {"three": record("three", "b")}
    mlflow.set_experiment("tests")
    ids |= {name: record(name, "a") for name in ("one", "two")}
    with mlflow.start_run(run_name="silent"):
        mlflow.log_metric("x", 1)
    return ids


def record(name, model):
    with mlflow.start_run(run_name=name) as run, actionflow.Recorder() as recorder:
        mlflow.log_param("model", model)
        recorder.add([1], [[0.0, 1.0]], [0])
        recorder.end_epoch()
    return run.info.run_id


def names(*words):
    return [run.name for run in find_runs(list(words))]


def test_without_a_word_all_recorded_runs_are_meant(recorded):
    assert sorted(names()) == ["one", "three", "two"]


def test_ids_prefixes_and_names_in_the_order_they_were_typed(recorded):
    assert names(recorded["two"], "three", recorded["one"][:12]) == ["two", "three", "one"]


def test_an_experiment_stands_for_its_runs(recorded):
    assert sorted(names("tests")) == ["one", "two"]
    assert names("others") == ["three"]


@pytest.mark.parametrize("condition", ["params.model = 'b'", "attributes.run_name LIKE 'thr%'", "params.model='b'"])
def test_a_filter_is_mlflows_own(recorded, condition):
    assert names(condition) == ["three"]


def test_a_run_named_twice_is_opened_once(recorded):
    assert names("one", recorded["one"], "params.model = 'a'").count("one") == 1


def test_an_unknown_name_is_answered_with_the_nearest(recorded):
    with pytest.raises(StoreError, match=r"no run is called thre .*Did you mean three"):
        names("thre")


def test_a_name_of_two_runs_lists_both(recorded):
    record("one", "c")
    with pytest.raises(StoreError, match=rf"one stands for 2 runs: .*{recorded['one'][:8]} \(one\)"):
        names("one")


def test_a_filter_that_nothing_fits_is_told(recorded):
    with pytest.raises(StoreError, match="no recorded run fits the filter"):
        names("params.model = 'z'")


def test_a_filter_that_mlflow_does_not_take_is_told_in_one_line(recorded):
    with pytest.raises(StoreError, match="MLflow does not take the filter") as told:
        names("colour = 'b'")
    assert "\n" not in str(told.value)


def test_an_empty_store_says_how_to_begin(store):
    with pytest.raises(StoreError, match=r"nothing has been recorded .*make demo"):
        names("one")
