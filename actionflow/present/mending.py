"""What mending came to: the table of the paper's figure 4, and the trade-off of its figure 5."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Tuned:
    """One classifier: what it was tuned on, and its accuracies."""

    tuned_on: str
    weight: float | None  # lambda
    validation: float
    test: float
    scenarios: float  # held-out samples of failure scenarios
    scenarios_tuned_on: float
    epoch: int = 0

    @property
    def told(self) -> str:
        """Its lambda, where it has one."""
        return "" if self.weight is None else f"{self.weight:g}"


def mending_table(rows: Sequence[Tuned]) -> pa.Table:
    """The rows as they are shown."""
    return pa.table(
        {
            "tuned_on": [row.tuned_on for row in rows],
            "lambda": [row.weight for row in rows],
            "validation": [row.validation for row in rows],
            "test": [row.test for row in rows],
            "scenarios": [row.scenarios for row in rows],
        }
    )


def trade_off(title: str, before: Tuned, control: Tuned, sweeps: Sequence[Sequence[Tuned]]) -> Figure:
    """Test accuracy against accuracy on held-out scenarios, a line for every kind of failures that was tuned on."""
    from matplotlib.figure import Figure

    from actionflow.present.figures import INK, RIGHT, WRONG

    figure = Figure(figsize=(7, 4.6), dpi=120, layout="constrained")
    axes = figure.subplots()
    for rows, colour, marker in zip(sweeps, (RIGHT, WRONG), ("o", "s"), strict=False):
        ordered = sorted(rows, key=lambda row: row.weight or 0.0)
        scenarios, tested = [row.scenarios for row in ordered], [row.test for row in ordered]
        axes.plot(scenarios, tested, color=colour, marker=marker, markersize=4, linewidth=1, label=ordered[0].tuned_on)
        for row in ordered:
            axes.annotate(
                row.told, (row.scenarios, row.test), fontsize=6, color=colour, xytext=(3, 3), textcoords="offset points"
            )
    for row, mark in ((before, "*"), (control, "D")):
        axes.plot([row.scenarios], [row.test], mark, color=INK, markersize=8, label=row.tuned_on, linestyle="none")
    axes.set(xlabel="accuracy on held-out samples of the failure scenarios", ylabel="test accuracy")
    axes.set_title(title, loc="left", fontsize=10)
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
