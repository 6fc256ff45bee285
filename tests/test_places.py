"""Every question is answered alike wherever the runs are: in a plain folder, behind a server."""

import mlflow
import pytest
from conftest import Store, train
from servers import Server

import actionflow
from actionflow.questions import files

# What a question must be told; runs by name.
NEEDS = {
    "run_correlation": {"run_a": "one", "run_b": "two"},
    "quantile_correlation": {"run_a": "one", "run_b": "two"},
    "disagreement": {"run_a": "one", "run_b": "two"},
    "curriculum": {"run_id": "one"},
    "neighbours": {"sample_id": 5},
    "descriptions": {"run_id": "one"},
    "sample_curves": {"run_id": "one"},
}
# Runs on pictures write no words, and nobody has audited, explained or mended these.
NO_ROWS = {"hard_words", "label_pairs", "failure_modes", "failure_controls", "scenarios"}


@pytest.fixture(scope="module", params=["folder", "server"])
def place(request, tmp_path_factory, empty_store):
    """Two small trainings and a curriculum, in a folder of MLflow's or on a server."""
    folder = tmp_path_factory.mktemp(request.param)
    server = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ACTIONFLOW_HOME", str(folder / "home"))
        # MLflow would rather have a database; people have folders.
        patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        if request.param == "server":
            Store(folder, empty_store)
            server = Server(folder)
            server.start()
        patch.setenv("MLFLOW_TRACKING_URI", server.uri if server else (folder / "mlruns").as_uri())
        before = mlflow.get_tracking_uri()
        mlflow.set_tracking_uri(server.uri if server else (folder / "mlruns").as_uri())
        mlflow.set_experiment("places")
        for seed, name in enumerate(("one", "two")):
            train(limit=64, epochs=2, seed=seed, run_name=name)
        actionflow.curriculum("one", stages=2)
        yield request.param
        mlflow.set_tracking_uri(before)
        if server:
            server.stop()


@pytest.mark.parametrize("name", files.names())
def test_every_question_is_answered(place, name):
    with actionflow.connect(["one", "two"]) as session:
        rows = session.query(name, **NEEDS.get(name, {}))
    assert bool(rows.num_rows) == (name not in NO_ROWS)


def test_every_view_has_rows(place):
    with actionflow.connect(["one", "two"]) as session:
        for view in ("runs", "dynamics", "samples", "scores", "features", "clusters", "curricula"):
            assert session.sql(f"select count(*) as n from {view}").to_pylist()[0]["n"] > 0
