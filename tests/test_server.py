"""A real tracking server: trained into and read from over HTTP, gone for a moment, gone for good."""

import time

import pytest
from conftest import Training, train
from servers import Server

import actionflow

LONG = {"limit": 96, "epochs": 10, "stop_patience": 0}


@pytest.fixture
def remote(store, monkeypatch):
    """The store behind a server: artifacts go through it, as they do in a team."""
    import mlflow

    server = Server(store.folder)
    server.start()
    remote_client = mlflow.MlflowClient(server.uri)
    store.experiment = remote_client.create_experiment("remote")
    store.environment |= {"MLFLOW_TRACKING_URI": server.uri, "MLFLOW_EXPERIMENT_NAME": "remote"}
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    mlflow.set_tracking_uri(server.uri)
    mlflow.set_experiment("remote")
    store.server = server
    yield store
    server.stop()


def wait_for_epoch(store, epoch):
    """Wait until an epoch has arrived on the server; return the run's id."""
    pattern = f"artifacts/*/*/artifacts/actionflow/dynamics/val/epoch-{epoch:04d}.parquet"
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        for path in store.folder.glob(pattern):
            return path.relative_to(store.folder / "artifacts").parts[1]
        time.sleep(0.01)
    raise AssertionError("the epoch did not arrive")


def test_a_run_on_a_server_is_trained_fetched_once_and_read(remote):
    run_id = train(limit=96, epochs=2)
    with actionflow.connect(run_id) as session:
        first = session.query("hardest", k=5)
        assert session.sql("select count(*) as n from dynamics").to_pylist() == [{"n": 2 * (96 + 96)}]
        assert session.sql("select count(*) as n from samples").to_pylist() == [{"n": 2 * 96}]
    fetched = {path: path.stat().st_mtime_ns for path in (remote.folder / "home" / "cache").rglob("*.parquet")}
    with actionflow.connect(run_id) as session:
        assert session.query("hardest", k=5).equals(first)
        session.sql("select count(*) from dynamics")
    assert fetched == {path: path.stat().st_mtime_ns for path in (remote.folder / "home" / "cache").rglob("*.parquet")}


def test_a_server_that_goes_away_for_a_moment_is_waited_for(remote, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "7")
    training = Training(remote, **LONG)
    run_id = wait_for_epoch(remote, 2)
    remote.server.stop()
    time.sleep(1)
    remote.server.start()
    code, said = training.end()
    assert code == 0, said
    with actionflow.connect(run_id) as session:
        assert session.sql("select min(epochs_seen) as n from scores").to_pylist() == [{"n": LONG["epochs"]}]


def test_a_server_that_is_gone_for_good_costs_nothing_that_was_recorded(remote):
    training = Training(remote, **LONG)
    run_id = wait_for_epoch(remote, 2)
    remote.server.stop()
    code, said = training.end()
    assert code == 1
    (line,) = [line for line in said.splitlines() if line.startswith("Error: ")]
    unsent = remote.folder / "home" / "unsent" / run_id
    assert f"the tracking server {remote.server.uri} did not take" in line
    assert f"are kept in {unsent}" in line
    assert f"go on with -P resume={run_id}" in line
    assert "Traceback" not in said
    assert list(unsent.rglob("*.pt"))

    remote.server.start()
    assert train(resume=run_id) == run_id
    with actionflow.connect(run_id) as session:
        assert session.sql("select min(epochs_seen) as n from scores").to_pylist() == [{"n": LONG["epochs"]}]
    assert not unsent.exists()


def test_a_server_that_was_never_there_is_told_in_one_line(store, monkeypatch):
    import mlflow

    mlflow.set_tracking_uri("http://127.0.0.1:9")
    with pytest.raises(SystemExit, match=r"^Error: MLflow at http://127\.0\.0\.1:9 says: ") as told:
        train(limit=96, epochs=1)
    assert "\n" not in str(told.value)
