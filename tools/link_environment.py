"""Let a plain `mlflow run .` use .venv: put a link to it where MLflow looks for this project's environment.

MLflow derives the environment's folder from python_env.yaml and requirements.txt and uses a folder of that name as it
is, before it looks for pyenv or uv. The name is the same for every clone, so the link is renewed when it is broken or
leads to another clone.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mlflow.environment_variables import MLFLOW_ENV_ROOT
from mlflow.utils.environment import _PythonEnv
from mlflow.utils.virtualenv import _get_virtualenv_name

PROJECT = Path(__file__).resolve().parents[1]


def environment_folder(project: Path) -> Path:
    """Return where MLflow looks for the environment of a project."""
    environment = _PythonEnv.from_yaml(project / "python_env.yaml")
    return Path(MLFLOW_ENV_ROOT.get()) / str(_get_virtualenv_name(environment, project))


def link(folder: Path, environment: Path) -> str:
    """Make `folder` a link to `environment`; say what was done."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    if folder.is_symlink():
        if folder.resolve() == environment.resolve():
            return f"mlflow run uses {environment}"
        folder.unlink()
    elif folder.exists():
        return (
            f"mlflow run uses the environment that it made itself, {folder}. Delete that folder to use {environment}."
        )
    folder.symlink_to(environment, target_is_directory=True)
    return f"mlflow run uses {environment} (linked from {folder})"


if __name__ == "__main__":
    print(link(environment_folder(PROJECT), Path(sys.prefix)), file=sys.stderr)
