"""ActionFlow: which samples are hard, for whom, and what to do about it.

It records what every sample did in every epoch of a training, keeps it as Parquet inside MLflow runs, and answers
with SQL. `Recorder` records your own loop; `connect` asks questions of recorded runs,
`compare` tells how far they agree, `curves` groups the samples of one by how they were learnt,
`report` shows it all as a page.

Importing this package is instant: torch and mlflow are imported when a name that needs them is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actionflow.errors import ActionFlowError

if TYPE_CHECKING:
    from actionflow.clustering import Curves, curves
    from actionflow.comparing import Comparison, compare
    from actionflow.ordering import curriculum
    from actionflow.recording import Recorder
    from actionflow.reporting import Report, report
    from actionflow.session import Session, connect, query

__version__ = "0.1.0"
__all__ = [
    "ActionFlowError",
    "Comparison",
    "Curves",
    "Recorder",
    "Report",
    "Session",
    "compare",
    "connect",
    "curriculum",
    "curves",
    "query",
    "report",
]

_HOMES = {
    "Comparison": "actionflow.comparing",
    "Curves": "actionflow.clustering",
    "Recorder": "actionflow.recording",
    "Report": "actionflow.reporting",
    "Session": "actionflow.session",
    "compare": "actionflow.comparing",
    "connect": "actionflow.session",
    "curriculum": "actionflow.ordering",
    "curves": "actionflow.clustering",
    "query": "actionflow.session",
    "report": "actionflow.reporting",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'actionflow' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
