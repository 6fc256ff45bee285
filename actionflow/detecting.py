"""How well scores find wrong labels: measures over seeds with intervals, and which of them to trust, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.stats import rankdata

from actionflow.errors import DataError
from actionflow.store import schema
from actionflow.studying import interval

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# The lower these are, the more suspicious a label is; of all other scores, the higher.
LOW_IS_SUSPICIOUS = {"confidence", "correctness", "aum"}
# Numbers of the table of scores that judge no label; action_mean has the order of action.
NO_SCORES = {"sample_id", "label", "prediction", "epochs_seen", "action_mean"}
# Scores that other packages make: their names begin so.
OTHERS = ("cleanlab_", "aum_package")
# Columns of a study's samples that are no scores.
KNOWN = {"seed", "sample_id", "label", "clean_label", "wrong"}
# A share that a person can look through.
LOOKED_AT = 0.01

MEASURES = ("auroc", "average_precision", "precision_at_wrong", "precision_at_1_percent")
JUDGED_BY = "average_precision"


# What helps where an audit finds no line.
INSTEAD = "-P threshold=20% flags as many as you expect to be wrong."


@dataclass(frozen=True)
class Flagged:
    """What an audit made of one seed's labels: how many it flags, how right it is, how many it thinks are wrong."""

    seed: int
    count: int
    precision: float
    recall: float
    estimate: float | None  # None where the audit was told how many to flag
    share: float

    @classmethod
    def of(cls, seed: int, suspects: Flags, wrong: Flags, estimate: float | None) -> Flagged:
        """Hold the suspects against the labels that are wrong."""
        right = int((suspects & wrong).sum())
        count = int(suspects.sum())
        return cls(seed, count, right / max(1, count), right / int(wrong.sum()), estimate, float(wrong.mean()))


def flagged_told(flagged: list[Flagged]) -> str:
    """What the audits of all seeds came to, in words."""
    some = [each for each in flagged if each.count]
    found = f"The audit flagged nothing, so nothing was trained without it: {INSTEAD}"
    if some:
        count, precision, recall = (
            fmean(getattr(each, name) for each in some) for name in ("count", "precision", "recall")
        )
        found = (
            f"The audit flagged {count:,.0f} labels: {precision:.1%} of them are wrong, "
            f"and they are {recall:.1%} of the wrong ones."
        )
        if len(some) < len(flagged):
            found += f" In {len(flagged) - len(some)} of {len(flagged)} seeds it flagged nothing."
    share = fmean(each.share for each in flagged)
    estimates = [each.estimate for each in flagged if each.estimate is not None]
    estimated = f"It estimated {fmean(estimates):.1%} wrong labels, there" if estimates else "There"
    return f"{found} {estimated} are {share:.1%}."


def check_noise(labels: NDArray[np.int64], clean: Any) -> Flags:
    """Which labels are wrong; refuse data in which there is nothing to find, or nothing else."""
    wrong: Flags = labels != np.asarray(clean)
    if wrong.all() or not wrong.any():
        found = "all" if wrong.any() else "none"
        raise DataError(
            f"{found} of the {len(wrong):,} training labels are wrong, so nothing can be told apart: type -P noise=0.2."
        )
    return wrong


def suspicions(scores: pa.Table) -> dict[str, Floats]:
    """Every score of these samples, turned so that the more suspicious a label is, the larger the number.

    A forgetting of NULL is a sample that was never right, and what is not a number a loss that exploded: both are the
    most suspicious. A score that no sample has is left out.
    """
    numbers = [
        field.name
        for field in schema.SCORES
        if (pa.types.is_floating(field.type) or pa.types.is_integer(field.type)) and field.name not in NO_SCORES
    ]
    there = [name for name in numbers if scores[name].null_count < scores.num_rows]
    return {name: _turned(name, scores[name]) for name in there}


def _turned(name: str, column: pa.ChunkedArray) -> Floats:
    values = column.cast(pa.float64()).to_numpy()
    turned = -values if name in LOW_IS_SUSPICIOUS else values
    numbers: Floats = np.nan_to_num(turned, nan=np.inf, posinf=np.inf, neginf=-np.inf)
    return numbers


def found_by(samples: pa.Table) -> list[dict[str, Any]]:
    """How well each score of one training finds its wrong labels; `samples` as a study keeps them."""
    wrong = samples["wrong"].to_numpy(zero_copy_only=False)
    seed = samples["seed"][0].as_py()
    scores = [name for name in samples.column_names if name not in KNOWN]
    return [{"score": name, "seed": seed, **measured(samples[name].to_numpy(), wrong)} for name in scores]


def measured(suspicion: Floats, wrong: Flags) -> dict[str, float]:
    """How well a score finds the labels that are wrong."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    ranks = rankdata(suspicion)  # finite, whatever the score was
    return {
        "auroc": float(roc_auc_score(wrong, ranks)),
        "average_precision": float(average_precision_score(wrong, ranks)),
        "precision_at_wrong": precision_at(int(wrong.sum()), suspicion, wrong),
        "precision_at_1_percent": precision_at(max(1, round(LOOKED_AT * len(wrong))), suspicion, wrong),
    }


def precision_at(k: int, suspicion: Floats, wrong: Flags) -> float:
    """The share of wrong labels among the k most suspicious; of samples that are even, what a fair draw would take.

    >>> precision_at(2, np.array([9.0, 5.0, 5.0]), np.array([True, True, False]))
    0.75
    """
    least = np.sort(suspicion)[-k]
    above, even = suspicion > least, suspicion == least
    return float((wrong[above].sum() + (k - above.sum()) * wrong[even].mean()) / k)


def detection_report(found: list[dict[str, Any]]) -> pa.Table:
    """One row per score, the best first: each measure's mean over seeds and half its 95 % interval."""
    rows = [_over_seeds(name, of_one) for name, of_one in _by_score(found).items()]
    return pa.Table.from_pylist(sorted(rows, key=lambda row: -row[JUDGED_BY]))


def as_read(table: pa.Table) -> pa.Table:
    """The report as a person reads it: each measure with its interval in one cell."""
    rows = [
        {
            "score": row["score"],
            **{name: _with_margin(row[name], row[f"{name}_plus_minus"]) for name in MEASURES},
        }
        for row in table.to_pylist()
    ]
    return pa.Table.from_pylist(rows)


def _over_seeds(name: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {"score": name, "other_package": name.startswith(OTHERS), "seeds": len(found)}
    for measure in MEASURES:
        values = [each[measure] for each in found]
        row |= {measure: fmean(values), f"{measure}_plus_minus": interval(values)}
    return row


def detection_verdicts(found: list[dict[str, Any]], share: float) -> list[str]:
    """Which score to trust, in words; `share` is that of the wrong labels."""
    by_score = _by_score(found)
    order = detection_report(found)["score"].to_pylist()
    seeds = len(by_score[order[0]])
    trusted = _trusted(by_score, order)
    told = [f"Trust {trusted}: average precision {_mean(by_score[trusted])} (a random order has {share:.3f})."]
    if seeds < 2:
        return [*told, "One seed says nothing about chance: type -P seeds=3 or more."]
    rest = [name for name in order if name != trusted]
    same = [name for name in rest if not any(_differences(by_score[trusted], by_score[name]))]
    even = [name for name in rest if name not in same and not _differs(by_score[trusted], by_score[name])]
    useless = [name for name in order if fmean(each["auroc"] for each in by_score[name]) < 0.5]
    if same:
        told.append(f"The same order as {trusted}: {_listed(same)}.")
    if even:
        told.append(f"No difference that {seeds} seeds can show between {trusted} and {_listed(even)}.")
    if useless:
        told.append(f"Worse than a random order (AUROC below 0.5): {_listed(useless)}.")
    return [*told, *_held_against_others(by_score, order)]


def _trusted(by_score: Mapping[str, list[dict[str, Any]]], order: list[str]) -> str:
    """The best score; but one of the house, which every run has, where nothing shows that the best is better."""
    best = order[0]
    ours = next((name for name in order if not name.startswith(OTHERS)), best)
    return best if len(by_score[best]) < 2 or _differs(by_score[best], by_score[ours]) else ours


def _held_against_others(by_score: Mapping[str, list[dict[str, Any]]], order: list[str]) -> list[str]:
    """The best score of the house against the best of other packages."""
    ours = next((name for name in order if not name.startswith(OTHERS)), None)
    theirs = next((name for name in order if name.startswith(OTHERS)), None)
    if ours is None or theirs is None:
        return []
    gain = _differences(by_score[ours], by_score[theirs])
    margin = interval(gain) or 0.0
    word = "better" if fmean(gain) > margin else "worse" if fmean(gain) < -margin else "no difference that can be shown"
    return [f"{ours} against {theirs}: {fmean(gain):+.3f} ± {margin:.3f} average precision: {word}."]


def _differs(a: list[dict[str, Any]], b: list[dict[str, Any]]) -> bool:
    gain = _differences(a, b)
    return abs(fmean(gain)) > (interval(gain) or 0.0)


def _differences(a: list[dict[str, Any]], b: list[dict[str, Any]]) -> list[float]:
    """Seed by seed: scores of the same training share its luck."""
    other = {each["seed"]: each[JUDGED_BY] for each in b}
    return [each[JUDGED_BY] - other[each["seed"]] for each in a]


def _by_score(found: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    names = dict.fromkeys(each["score"] for each in found)
    return {name: [each for each in found if each["score"] == name] for name in names}


def _mean(found: list[dict[str, Any]]) -> str:
    values = [each[JUDGED_BY] for each in found]
    return _with_margin(fmean(values), interval(values))


def _with_margin(value: float, margin: float | None) -> str:
    return f"{value:.3f}" + (f" ± {margin:.3f}" if margin is not None else "")


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
