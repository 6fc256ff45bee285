"""Where things lie inside a run: one place for every name."""

from __future__ import annotations

import os
import re
from pathlib import Path

ROOT = "actionflow"
DYNAMICS = f"{ROOT}/dynamics"
SAMPLES = f"{ROOT}/samples"
SCORES = f"{ROOT}/scores"
FEATURES = f"{ROOT}/features"
OUTPUTS = f"{ROOT}/outputs"
CLUSTERS = f"{ROOT}/clusters"
PIXELS = f"{ROOT}/pixels"
AUDITS = f"{ROOT}/audits"
CURRICULA = f"{ROOT}/curriculum"
FAILURE_MODES = f"{ROOT}/failure_modes"
FAILURE_MEMBERS = f"{ROOT}/failure_members"
MARKS = f"{ROOT}/marks"
COUNTEREXAMPLES = f"{ROOT}/counterexamples"
SCENARIOS = f"{ROOT}/scenarios"
SCENARIO_LABELS = f"{ROOT}/scenario_labels"
CHECKPOINTS = f"{ROOT}/checkpoint"
DESCRIPTION = f"{ROOT}/run.json"
ENVIRONMENT = f"{ROOT}/requirements.txt"

# Tags, as seen in the MLflow UI.
# training | dataset | resume | curriculum | comparison | paper_figures | curves | audit | failure_modes | study |
# marks | defuse | mending | scenario_labels
TAG_KIND = "actionflow.kind"
TAG_SCHEMA = "actionflow.schema_version"
TAG_TASK = "actionflow.task"
TAG_MODEL = "actionflow.model"
TAG_DATASET = "actionflow.dataset"
TAG_DIGEST = "actionflow.dataset_digest"
TAG_DATASET_RUN = "actionflow.dataset_run"
TAG_RESUMED = "actionflow.resumed_run"
TAG_CURRICULUM = "actionflow.curriculum"  # the file that a run was trained on
TAG_CURRICULUM_RUN = "actionflow.curriculum_run"  # the run whose scores it came from
TAG_COMPARED = "actionflow.compared_runs"
TAG_CLUSTERED = "actionflow.clustered_run"
TAG_AUDITED = "actionflow.audited_run"
TAG_EXPLAINED = "actionflow.explained_run"
TAG_ROBUST = "actionflow.robust_radius"  # of an adversarial training: how far its pictures were changed
TAG_STEP = "actionflow.defuse_step"  # vae | identify | distill | correct
TAG_CHAIN = "actionflow.defuse_run"  # the run above the steps
TAG_DEFUSED = "actionflow.defused_run"  # the classifier
TAG_MENDED = "actionflow.mended_from"  # the classifier that a mended one was fine-tuned from
TAG_MENDED_RUN = "actionflow.mended_run"  # the mended one
TAG_ERROR = "actionflow.error"

_EPOCH_FILE = re.compile(r"epoch-(\d{4,})(?:\.part-(\d+))?\.parquet")


def epoch_file(epoch: int, rank: int = 0) -> str:
    """The name of an epoch's file; ranks beyond the first write a part of their own.

    >>> epoch_file(7), epoch_file(7, rank=1)
    ('epoch-0007.parquet', 'epoch-0007.part-1.parquet')
    """
    part = f".part-{rank}" if rank else ""
    return f"epoch-{epoch:04d}{part}.parquet"


def epoch_of(name: str) -> int | None:
    """The epoch that a file name stands for, None for other files."""
    match = _EPOCH_FILE.fullmatch(name)
    return int(match.group(1)) if match else None


def dynamics(split: str, epoch: int, rank: int = 0) -> str:
    """The artifact path of one epoch of one split."""
    return f"{DYNAMICS}/{split}/{epoch_file(epoch, rank)}"


def home() -> Path:
    """Where ActionFlow keeps what is not in the tracking server (yet): $ACTIONFLOW_HOME or ~/.actionflow."""
    return Path(os.environ.get("ACTIONFLOW_HOME") or Path.home() / ".actionflow")


def unsent(run_id: str) -> Path:
    """Files of a run that wait to be sent; empty unless the run died or its server went away."""
    return home() / "unsent" / run_id


def lock(run_id: str) -> Path:
    """The file that a process holds while it writes into a run."""
    return home() / "running" / f"{run_id}.lock"


def local_checkpoints(run_id: str) -> Path:
    """What an unfinished training needs and is too large to be sent."""
    return home() / "checkpoints" / run_id


def cache(run_id: str) -> Path:
    """Copies of a remote run's files."""
    return home() / "cache" / run_id
