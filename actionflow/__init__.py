"""ActionFlow: which samples are hard, for whom, and what to do about it.

It records what every sample did in every epoch of a training, keeps it as Parquet inside MLflow runs, and answers
with SQL. `Recorder` records your own loop; `connect` asks questions of recorded runs,
`compare` tells how far they agree, `curves` groups the samples of one by how they were learnt,
`audit` tells which labels are probably wrong, `explain` when a model fails, `report` shows it all as a page,
`paper_figures` as a paper prints it.

Importing this package is instant: torch and mlflow are imported when a name that needs them is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actionflow.errors import ActionFlowError

if TYPE_CHECKING:
    from actionflow.auditing import Audit, audit
    from actionflow.clustering import Curves, curves
    from actionflow.comparing import Comparison, compare
    from actionflow.explaining import Explanation, explain
    from actionflow.ordering import curriculum
    from actionflow.publishing import PaperFigures, paper_figures
    from actionflow.recording import Recorder
    from actionflow.reporting import Report, report
    from actionflow.session import Session, connect, query

__version__ = "0.1.0"
__all__ = [
    "ActionFlowError",
    "Audit",
    "Comparison",
    "Curves",
    "Explanation",
    "PaperFigures",
    "Recorder",
    "Report",
    "Session",
    "audit",
    "compare",
    "connect",
    "curriculum",
    "curves",
    "explain",
    "paper_figures",
    "query",
    "report",
]

_HOMES = {
    "Audit": "actionflow.auditing",
    "Comparison": "actionflow.comparing",
    "Curves": "actionflow.clustering",
    "Explanation": "actionflow.explaining",
    "PaperFigures": "actionflow.publishing",
    "Recorder": "actionflow.recording",
    "Report": "actionflow.reporting",
    "Session": "actionflow.session",
    "audit": "actionflow.auditing",
    "compare": "actionflow.comparing",
    "connect": "actionflow.session",
    "curriculum": "actionflow.ordering",
    "curves": "actionflow.clustering",
    "explain": "actionflow.explaining",
    "paper_figures": "actionflow.publishing",
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
