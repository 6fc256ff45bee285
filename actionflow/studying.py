"""What repeated trainings say: means over seeds with intervals, and plain words when there is no difference."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean, stdev

import pyarrow as pa
from mlflow import MlflowClient
from scipy.stats import t


@dataclass(frozen=True)
class Trial:
    """One training of a study: its test accuracy at the best epoch, and its way there."""

    kind: str
    seed: int
    run_id: str
    accuracy: float
    steps: int
    way: tuple[tuple[int, float], ...]  # gradient steps so far, test accuracy then

    @classmethod
    def of(cls, kind: str, seed: int, run_id: str) -> Trial:
        """Read a finished run."""
        client = MlflowClient()
        steps = [int(point.value) for point in client.get_metric_history(run_id, "steps")]
        accuracies = [point.value for point in client.get_metric_history(run_id, "test/accuracy")]
        best = client.get_run(run_id).data.metrics["best/test_accuracy"]
        return cls(kind, seed, run_id, best, steps[-1], tuple(zip(steps, accuracies, strict=True)))

    def steps_to(self, accuracy: float) -> int | None:
        """The gradient steps after which the test accuracy was first reached; None if it never was."""
        return next((steps for steps, reached in self.way if reached >= accuracy), None)


def report(trials: list[Trial], baseline: str) -> pa.Table:
    """One row per kind: test accuracy with its 95 % interval over seeds, the paired difference from the baseline."""
    kinds = list(dict.fromkeys(trial.kind for trial in trials))
    before = {trial.seed: trial for trial in trials if trial.kind == baseline}
    return pa.Table.from_pylist([_row(kind, [each for each in trials if each.kind == kind], before) for kind in kinds])


def verdicts(table: pa.Table, baseline: str, called: str = "the baseline") -> list[str]:
    """The meaning of each row in words; no difference is called no difference."""
    return [_verdict(row, called) for row in table.to_pylist() if row["kind"] != baseline]


def interval(values: list[float]) -> float | None:
    """Half the width of the 95 % interval of a mean, by Student's t; None for a single value.

    >>> interval([1.0, 2.0, 3.0])
    2.484...
    """
    if len(values) < 2:
        return None
    return float(t.ppf(0.975, len(values) - 1)) * stdev(values) / math.sqrt(len(values))


def _row(kind: str, trials: list[Trial], before: dict[int, Trial]) -> dict[str, object]:
    accuracies = [trial.accuracy for trial in trials]
    # Pairs of the same seed start from the same weights: their difference has less noise than either.
    differences = [trial.accuracy - before[trial.seed].accuracy for trial in trials]
    reached = [trial.steps_to(before[trial.seed].accuracy) for trial in trials]
    known = [steps for steps in reached if steps is not None]
    return {
        "kind": kind,
        "seeds": len(trials),
        "steps": trials[0].steps,
        "test_accuracy": fmean(accuracies),
        "plus_minus": interval(accuracies),
        "difference": fmean(differences),
        "difference_plus_minus": interval(differences),
        "reached_baseline": len(known),
        "steps_to_baseline": fmean(known) if known else None,
    }


def _verdict(row: dict[str, float], called: str) -> str:
    margin = row["difference_plus_minus"]
    told = f"{row['kind']}: {row['difference']:+.4f} test accuracy against {called}"
    if margin is None:
        return f"{told}; one seed says nothing about chance, type -P seeds=3 or more."
    if abs(row["difference"]) <= margin:
        return f"{told} ± {margin:.4f}: no difference that {row['seeds']} seeds can show."
    return f"{told} ± {margin:.4f}: {'better' if row['difference'] > 0 else 'worse'}."
