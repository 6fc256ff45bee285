"""Fixtures: a tracking store of one's own for each test, and small real trainings that many tests read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]

# One thread a worker: the workers of pytest-xdist share the cores. It also makes sums the same wherever tests run.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
# Words are wrapped at the width of the terminal: one width, whatever terminal runs the tests.
os.environ["COLUMNS"] = "120"
# Keras looks once, when it is imported.
os.environ["KERAS_BACKEND"] = "torch"
# Servers that are gone are given up on soon.
os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] = "2"
os.environ["MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR"] = "1"
os.environ["MLFLOW_HTTP_REQUEST_BACKOFF_JITTER"] = "0"
for name in ("MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_TRACKING_URI"):
    os.environ.pop(name, None)


# Files of tests that wait for processes of their own. They are begun with, so that no worker is left with one of them
# at the end while the others have nothing to do.
LONGEST = (
    *("test_resume.py", "test_server.py", "test_install.py", "test_examples.py", "test_browser.py", "test_study.py"),
    *("test_cli.py", "test_text_bad_input.py", "test_autoencoder.py", "test_permissions.py", "test_serving.py"),
    *("test_bad_input.py", "test_spark.py"),
)


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory):
    """A tracking database with its tables made: MLflow takes seconds for that, a copy does not."""
    from mlflow import MlflowClient

    path = tmp_path_factory.mktemp("store") / "mlflow.db"
    MlflowClient(f"sqlite:///{path}").search_experiments()
    return path


class Store:
    """A tracking store in a folder, and how to train into it."""

    def __init__(self, folder, empty_store):
        from mlflow import MlflowClient

        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        shutil.copy(empty_store, folder / "mlflow.db")
        self.uri = f"sqlite:///{folder / 'mlflow.db'}"
        self.client = MlflowClient(self.uri)
        self.experiment = self.client.create_experiment("tests", artifact_location=(folder / "artifacts").as_uri())
        self.environment = {
            "MLFLOW_TRACKING_URI": self.uri,
            "MLFLOW_EXPERIMENT_NAME": "tests",
            "ACTIONFLOW_HOME": str(folder / "home"),
        }

    def outside(self, **more):
        """The environment of another process that uses this store."""
        inherited = {name: value for name, value in os.environ.items() if name != "MLFLOW_EXPERIMENT_ID"}
        return {**inherited, **self.environment, **more}

    def runs(self, kind="training"):
        """The runs of a kind, oldest first."""
        wanted = f"tags.`actionflow.kind` = '{kind}'"
        return self.client.search_runs([self.experiment], wanted, order_by=["attributes.start_time ASC"])

    def artifacts(self, run_id):
        """The folder of a run's artifacts."""
        return self.folder / "artifacts" / run_id / "artifacts"


@pytest.fixture
def store(tmp_path, empty_store, monkeypatch):
    """A store that only this test writes to; MLflow and ActionFlow use it."""
    yield from _in_use(Store(tmp_path / "store", empty_store), monkeypatch)


@pytest.fixture(scope="module")
def module_store(tmp_path_factory, empty_store):
    """A store that the tests of one file share, for what they only read."""
    with pytest.MonkeyPatch.context() as patch:
        yield from _in_use(Store(tmp_path_factory.mktemp("shared"), empty_store), patch)


def _in_use(store, patch):
    import mlflow

    before = mlflow.get_tracking_uri()
    for name, value in store.environment.items():
        patch.setenv(name, value)
    mlflow.set_tracking_uri(store.uri)
    mlflow.set_experiment("tests")
    yield store
    while mlflow.active_run():
        mlflow.end_run()
    mlflow.set_tracking_uri(before)


def train(**parameters):
    """Train on pictures in this process, as `python -m projects.vision` does; return the run's id."""
    from actionflow.tracking import VisionRun
    from projects import vision

    return _train(vision, VisionRun, parameters)


def train_autoencoder(**parameters):
    """Train an autoencoder in this process, as `python -m projects.autoencoder` does; return the run's id."""
    from actionflow.tracking import AutoencoderRun
    from projects import autoencoder

    return _train(autoencoder, AutoencoderRun, parameters)


def train_text(**parameters):
    """Train on texts in this process, as `python -m projects.text` does; return the run's id."""
    from actionflow.tracking.text_run import TextRun
    from projects import text

    return _train(text, TextRun, parameters)


def _train(project, kind, parameters):
    import mlflow

    from actionflow.tracking import launch

    seen = []

    def noting(run):
        seen.append(run.run_id)
        project.train(run)

    launch(noting, kind, words_of(parameters))
    assert mlflow.active_run() is None
    return seen[0]


def words_of(parameters):
    """Parameters as a command line has them."""
    return [word for name, value in parameters.items() for word in (f"--{name}", str(value))]


SMALL = {"limit": 160, "epochs": 3}


class Training:
    """A training in a process of its own, watched from outside."""

    def __init__(self, store, project="vision", **parameters):
        self.store = store
        self.older = set((store.folder / "artifacts").glob("*"))
        self.process = subprocess.Popen(
            [sys.executable, "-m", f"projects.{project}", *words_of(parameters)],
            cwd=PROJECT,
            env=store.outside(),
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for(self, pattern):
        """Wait until a file appears in the training's run; return the run's id."""
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            for run in set((self.store.folder / "artifacts").glob("*")) - self.older:
                if any(run.glob(f"artifacts/actionflow/{pattern}")):
                    return run.name
            assert self.process.poll() is None, self.process.stderr.read()
            time.sleep(0.002)
        raise AssertionError(f"{pattern} did not appear")

    def hear(self, word):
        """Wait until it says a word on stderr."""
        for line in self.process.stderr:
            if word in line:
                return
        raise AssertionError(f"it never said {word}")

    def kill(self):
        """End it at once, without a chance to tidy up."""
        self.process.kill()
        self.process.communicate()

    def end(self):
        """Let it come to its end; return its exit code and what it said."""
        _, said = self.process.communicate(timeout=120)
        return self.process.returncode, said
