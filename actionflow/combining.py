"""Do scores together find more wrong labels than one alone? Judged on data that nothing was chosen or fitted on.

Each study's data are left out in turn: on the others a single score is chosen, a mean rank of some, and the weights of
a logistic regression over the ranks of all; then each of them ranks the samples of the data that were left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.stats import norm, rankdata

from actionflow.detecting import KNOWN, Flags, Floats
from actionflow.errors import DataError
from actionflow.studying import interval

# Means of more scores are hardly ever better, and their number explodes.
MOST_TOGETHER = 3
# What is made of probabilities that k more trainings gave; and what has the order of a score of ours.
OUT_OF_FOLD, SAME_ORDER = "cleanlab_folds", {"aum_package", "cleanlab_epochs"}

# Average precisions of the trainings of each study, by the scores whose mean rank had them.
Found = Mapping[tuple[str, ...], Mapping[str, list[float]]]


@dataclass(frozen=True)
class Judged:
    """One training of a study: the rank of every sample by every score, from 0 to 1, and which labels are wrong."""

    ranks: Mapping[str, Floats]
    wrong: Flags

    def precision(self, suspicion: Floats) -> float:
        """The average precision of what is the larger, the more suspicious."""
        from sklearn.metrics import average_precision_score

        return float(average_precision_score(self.wrong, suspicion))

    def mean_rank(self, scores: Iterable[str]) -> Floats:
        """How suspicious these scores find the samples together."""
        whole: Floats = np.mean([self.ranks[score] for score in scores], axis=0)
        return whole

    def features(self, scores: Iterable[str]) -> NDArray[np.float64]:
        """The ranks as if they were drawn from a normal distribution: what is extreme counts."""
        columns: NDArray[np.float64] = np.stack([norm.ppf(self.ranks[score]) for score in scores], axis=1)
        return columns


def trainings(samples: pa.Table, with_folds: bool) -> list[Judged]:
    """The trainings of one study, from the table of samples that it keeps."""
    seeds = samples["seed"].to_numpy()
    return [_training(samples.filter(pa.array(seeds == seed)), with_folds) for seed in np.unique(seeds)]


def _training(samples: pa.Table, with_folds: bool) -> Judged:
    scores = [name for name in samples.column_names if name not in KNOWN and _is_chosen(name, with_folds)]
    count = samples.num_rows
    ranks = {name: (rankdata(samples[name].to_numpy()) - 0.5) / count for name in scores}
    return Judged(ranks, samples["wrong"].to_numpy(zero_copy_only=False))


def _is_chosen(name: str, with_folds: bool) -> bool:
    return name not in SAME_ORDER and (with_folds or not name.startswith(OUT_OF_FOLD))


def held_out(studies: Mapping[str, list[Judged]]) -> pa.Table:
    """One row per study: what was chosen without it, and the average precision on it, over its trainings."""
    if len(studies) < 2:
        raise DataError(f"what is chosen on one study is judged on another, so name two; found {len(studies)}.")
    trained = [each for of_one in studies.values() for each in of_one]
    scores = [score for score in trained[0].ranks if all(score in each.ranks for each in trained)]
    found = {
        chosen: {name: [each.precision(each.mean_rank(chosen)) for each in of_one] for name, of_one in studies.items()}
        for size in range(1, MOST_TOGETHER + 1)
        for chosen in combinations(scores, size)
    }
    return pa.Table.from_pylist([_row(name, studies, scores, found) for name in studies])


def _row(name: str, studies: Mapping[str, list[Judged]], scores: list[str], found: Found) -> dict[str, object]:
    single = _best(name, {chosen: of_all for chosen, of_all in found.items() if len(chosen) == 1})
    together = _best(name, {chosen: of_all for chosen, of_all in found.items() if len(chosen) > 1})
    weights = _weights([each for other in studies if other != name for each in studies[other]], scores)
    weighted = [each.precision(each.features(scores) @ weights) for each in studies[name]]
    alone = found[single][name]
    return {
        "study": name,
        "single": single[0],
        "single_precision": fmean(alone),
        "together": " + ".join(together),
        "together_precision": fmean(found[together][name]),
        **_gain("together", found[together][name], alone),
        "weighted_precision": fmean(weighted),
        **_gain("weighted", weighted, alone),
        "best_single_there": max(fmean(found[score,][name]) for score in scores),
    }


def _best(left_out: str, found: Found) -> tuple[str, ...]:
    """What has the highest precision on the other studies, each of which counts alike."""
    return max(
        found, key=lambda chosen: fmean(fmean(found[chosen][name]) for name in found[chosen] if name != left_out)
    )


def _gain(name: str, values: list[float], before: list[float]) -> dict[str, float | None]:
    gains = [value - one for value, one in zip(values, before, strict=True)]
    return {f"{name}_gain": fmean(gains), f"{name}_gain_plus_minus": interval(gains)}


def _weights(trained: list[Judged], scores: list[str]) -> Floats:
    """The weights of a logistic regression, in which every training counts alike."""
    from sklearn.linear_model import LogisticRegression

    features = np.concatenate([each.features(scores) for each in trained])
    wrong = np.concatenate([each.wrong for each in trained])
    weights = np.concatenate([np.full(len(each.wrong), 1 / len(each.wrong)) for each in trained])
    fitted = LogisticRegression(max_iter=1000).fit(features, wrong, sample_weight=weights * len(wrong) / len(trained))
    coefficients: Floats = fitted.coef_[0]
    return coefficients


def combining_verdict(table: pa.Table) -> list[str]:
    """Whether any way to combine won, in words."""
    rows = table.to_pylist()
    return [_verdict(name, rows) for name in ("together", "weighted")]


def _verdict(name: str, rows: list[dict[str, float]]) -> str:
    called = {"together": "The mean rank", "weighted": "The logistic regression"}[name]
    sure = [row for row in rows if abs(row[f"{name}_gain"]) > (row[f"{name}_gain_plus_minus"] or np.inf)]
    better = sum(row[f"{name}_gain"] > 0 for row in sure)
    beaten = sum(row[f"{name}_precision"] > row["best_single_there"] for row in rows)
    return (
        f"{called} against the single score chosen with it: better in {better}, worse in {len(sure) - better} of "
        f"{len(rows)} data sets (of the rest chance can be the cause); above the best single score there in {beaten}."
    )
