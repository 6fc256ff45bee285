"""Files of runs that lie elsewhere: fetched once, several at a time, into a cache that two processes may share."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import mkdtemp

from mlflow.exceptions import MlflowException
from mlflow.store.artifact.artifact_repo import ArtifactRepository
from tqdm import tqdm

from actionflow.errors import StoreError
from actionflow.store import layout, parquet

# MLflow would draw a bar for each file; ours is one for all.
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")

AT_ONCE = 8
# A bar for three files would be gone before it is read.
WORTH_A_BAR = 8


def fetch(store: ArtifactRepository, run_id: str, artifacts: Sequence[str]) -> list[Path]:
    """Paths on this machine of a run's files; those not in the cache are fetched together."""
    absent = [artifact for artifact in artifacts if not (layout.cache(run_id) / artifact).exists()]
    fetched = dict(zip(absent, _fetch_all(store, run_id, absent), strict=True))
    return [fetched.get(artifact, layout.cache(run_id) / artifact) for artifact in artifacts]


def fetch_anew(store: ArtifactRepository, run_id: str, artifact: str) -> Path:
    """A file that may have changed since it was last fetched, such as a checkpoint."""
    return _fetch(store, run_id, artifact)


def _fetch_all(store: ArtifactRepository, run_id: str, artifacts: Sequence[str]) -> list[Path]:
    if not artifacts:
        return []
    with ThreadPoolExecutor(AT_ONCE) as threads:
        paths = threads.map(lambda artifact: _fetch(store, run_id, artifact), artifacts)
        silent = len(artifacts) < WORTH_A_BAR or None
        return list(tqdm(paths, f"fetching {run_id[:8]}", len(artifacts), leave=False, disable=silent, file=sys.stderr))


def _fetch(store: ArtifactRepository, run_id: str, artifact: str) -> Path:
    """Into a folder of our own first, then into its place at once: others see the whole file or none."""
    target = layout.cache(run_id) / artifact
    target.parent.mkdir(parents=True, exist_ok=True)
    desk = mkdtemp(prefix=".fetching-", dir=target.parent)
    try:
        got = Path(store.download_artifacts(artifact, desk))
        os.replace(got, target)
    except MlflowException as error:
        raise StoreError(f"cannot fetch {artifact} of run {run_id}: {parquet.first_line(error)}") from error
    finally:
        shutil.rmtree(desk, ignore_errors=True)
    if target.suffix == ".parquet" and not parquet.is_whole(target):
        return _set_aside(target)
    return target


def _set_aside(torn: Path) -> Path:
    """A file that was still being written there must not stay in the cache: the next look fetches it again."""
    aside = torn.parent / ".torn" / torn.name
    aside.parent.mkdir(exist_ok=True)
    os.replace(torn, aside)
    return aside
