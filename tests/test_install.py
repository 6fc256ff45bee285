"""The project as others get it: the wheel elsewhere, and a plain `mlflow run` that finds its environment."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import mlflow
import pytest
from conftest import PROJECT

import actionflow

sys.path.insert(0, str(PROJECT / "tools"))
import link_environment


def run(command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy so that nothing of the checkout helps it."""
    source = tmp_path_factory.mktemp("source") / "actionflow"
    shutil.copytree(
        PROJECT,
        source,
        ignore=shutil.ignore_patterns(".git", ".venv", "mlruns", "mlflow.db*", "build", "data.*", ".*_cache"),
    )
    target = tmp_path_factory.mktemp("wheel")
    run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", target, source])
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def elsewhere(wheel, tmp_path_factory):
    """A Python that has the wheel, and its dependencies from this environment, but not this checkout."""
    folder = tmp_path_factory.mktemp("elsewhere")
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", packages, wheel])
    here = Path(mlflow.__file__).parents[1]
    borrowed = [
        path for path in here.iterdir() if "actionflow" not in path.name and path.suffix not in (".pth", ".egg-link")
    ]
    for path in borrowed:
        if not (packages / path.name).exists():
            (packages / path.name).symlink_to(path)
    return folder / "bin" / "python"


def test_the_wheel_answers_a_question_about_a_run(elsewhere, store, tmp_path):
    with mlflow.start_run(run_name="mine"), actionflow.Recorder() as recorder:
        recorder.add([1, 2], [[3.0, 0.0], [3.0, 0.0]], [0, 1])
        recorder.end_epoch()
    where = run([elsewhere, "-c", "import actionflow; print(actionflow.__file__)"], cwd=tmp_path)
    assert str(PROJECT) not in where.stdout
    ask = "from actionflow.cli import main; main()"
    asked = run([elsewhere, "-c", ask, "hardest", "mine", "-k", "1", "--format", "csv"], cwd=tmp_path)
    assert asked.stdout.splitlines()[1].split(",")[3] == "2"
    listed = run([elsewhere, "-c", ask, "query", "--list"], cwd=tmp_path)
    assert "hardest" in listed.stdout


def test_the_wheel_carries_every_query(wheel):
    import zipfile

    carried = {Path(name).name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("actionflow/queries/")}
    assert carried == {path.name for path in (PROJECT / "queries").glob("*.sql")}


def test_a_plain_mlflow_run_uses_the_environment_that_set_up_linked(store, tmp_path, monkeypatch):
    """Without pyenv, uv or a second install: nothing but the link and a bare search path."""
    monkeypatch.setenv("MLFLOW_ENV_ROOT", str(tmp_path / "envs"))
    folder = link_environment.environment_folder(PROJECT)
    link_environment.link(folder, Path(sys.prefix))
    environment = store.outside(PATH=f"{Path(sys.executable).parent}:/usr/bin:/bin")
    command = ["mlflow", "run", ".", "-P", "epochs=1", "-P", "limit=64", "-P", "run_name=plain"]
    run(command, cwd=PROJECT, env=environment)
    (done,) = store.runs()
    assert (done.info.status, done.info.run_name) == ("FINISHED", "plain")
    assert done.data.params["epochs"] == "1"
    assert [path.name for path in (tmp_path / "envs").iterdir()] == [folder.name]

    failed = subprocess.run(
        [*command[:3], "-P", "model=xeption"], cwd=PROJECT, env=environment, capture_output=True, text=True
    )
    assert failed.returncode == 1
    assert "Error: there is no model 'xeption'" in failed.stderr
    assert "Traceback" not in failed.stderr


def test_resuming_through_mlflow_goes_into_the_same_run(store, tmp_path, monkeypatch):
    from conftest import Training

    monkeypatch.setenv("MLFLOW_ENV_ROOT", str(tmp_path / "envs"))
    training = Training(store, limit=64, epochs=8, stop_patience=0)
    run_id = training.wait_for("checkpoint/epoch-0001.pt")
    training.kill()
    command = [
        sys.executable,
        "-m",
        "mlflow",
        "run",
        ".",
        "--env-manager",
        "local",
        "-e",
        "digits",
        "-P",
        f"resume={run_id}",
    ]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    run(command, cwd=PROJECT, env=store.outside(PATH=path))
    (resumed,) = store.runs()
    (pointer,) = store.runs(kind="resume")
    assert (resumed.info.run_id, resumed.info.status, resumed.data.metrics["epochs"]) == (run_id, "FINISHED", 8)
    assert pointer.data.tags["actionflow.resumed_run"] == run_id


@pytest.mark.parametrize("before", ["nothing", "a broken link", "another clone"])
def test_set_up_renews_the_link(tmp_path, before):
    folder, environment = tmp_path / "envs" / "mlflow-1", tmp_path / "here" / ".venv"
    environment.mkdir(parents=True)
    folder.parent.mkdir()
    if before == "a broken link":
        folder.symlink_to(tmp_path / "gone")
    if before == "another clone":
        (tmp_path / "there").mkdir()
        folder.symlink_to(tmp_path / "there")
    link_environment.link(folder, environment)
    assert folder.resolve() == environment


def test_set_up_leaves_an_environment_that_mlflow_made_alone(tmp_path):
    folder = tmp_path / "envs" / "mlflow-1"
    folder.mkdir(parents=True)
    assert "made itself" in link_environment.link(folder, tmp_path)
    assert not folder.is_symlink()
