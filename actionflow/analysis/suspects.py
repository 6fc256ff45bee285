"""Which labels are probably wrong: a score that ranks them, and a threshold that the data themselves give."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from actionflow.analysis.mixture import FEWEST, Mixture, fit
from actionflow.analysis.probabilities import has_probabilities, mean_probabilities
from actionflow.errors import DataError, QueryError, nearest
from actionflow.session import Session

Floats = NDArray[np.float64]

SCORES = ("aum", "confidence", "action")
WAYS = ("auto", "mixture", "samples")
GIVEN = "a share such as 0.2 or 20%"
# Below what all but one in a hundred of the threshold samples stay: as the paper of AUM has it.
PERCENTILE = 99
# A confidence that is stored as 0 or 1 is a rounded one.
SMALLEST = 1e-12
EVERY = 2**62
# The class of no label: labels count from 0.
NO_CLASS = -1


@dataclass(frozen=True)
class Suspects:
    """The judged samples of a split, most suspicious first, and how the line was drawn between wrong and right.

    `ranked` has a row per sample: `suspect_rank`, `sample_id`, `label`, `suggested`, `score`, `chance_wrong` (NULL
    where no mixture says it) and `suspect`. `way` says where `threshold`, in units of the score, comes from: `mixture`,
    `samples` (AUM's threshold samples), `share` (somebody said how many are wrong) or `none`, where the scores draw no
    line. `trust` is what the mixture
    was fitted to, in the order of `ranked`, `known` that of the threshold samples. These were not judged, nor was what
    has no finite trust.
    """

    ranked: pa.Table
    way: str
    threshold: float | None
    share: float
    mixture: Mixture | None
    trust: Floats
    known: Floats
    unjudged: int

    @property
    def count(self) -> int:
        """How many labels are suspect."""
        return int(np.count_nonzero(self.ranked["suspect"].to_numpy(zero_copy_only=False)))


def find_suspects(
    session: Session, run_id: str, split: str, by: str, way: str = "auto", no_class: int = NO_CLASS
) -> Suspects:
    """Rank the samples of one split of a run that the session has open, and say which are suspect.

    `no_class` is the class that the run gave to its threshold samples, if it has any.
    """
    _check_score(by)
    expected = check_threshold(way)
    asked = session.query("label_suspects", split=split, by=by, k=EVERY, no_class=no_class)
    trust, finite = _judged(asked, by)
    labelled = _labelled(session, split, no_class)
    _check_enough(asked, trust, labelled, by, split)
    known = _trust_of_threshold_samples(session, split, by, no_class)
    line = _draw(trust, known, way, split) if expected is None else _cut(trust, expected)
    judged = asked.filter(pa.array(finite))
    suggested = _suggested(session, run_id, split, judged, no_class)
    return Suspects(
        ranked=_table(judged, suggested, by, line.chance(trust), line.is_below(trust)),
        way=line.way,
        threshold=None if line.at is None else float(score_of(np.array([line.at]), by)[0]),
        share=line.share(trust),
        mixture=line.mixture,
        trust=trust,
        known=known,
        unjudged=len(known) + labelled - len(trust),
    )


@dataclass(frozen=True)
class Line:
    """Where the trust in a right label ends, if it ends anywhere, and the mixture that was fitted."""

    way: str
    at: float | None
    mixture: Mixture | None

    def is_below(self, trust: Floats) -> NDArray[np.bool_]:
        """Which labels are suspect."""
        return np.asarray(trust < self.at if self.at is not None else np.zeros(len(trust), np.bool_))

    def chance(self, trust: Floats) -> Floats | None:
        """The chance of each label to be wrong; None where no mixture says it."""
        is_of_wrong = self.mixture is not None and self.mixture.is_of_wrong_labels
        return self.mixture.chance(trust) if self.mixture and is_of_wrong else None

    def share(self, trust: Floats) -> float:
        """The estimated share of wrong labels."""
        chance = self.chance(trust)
        judged = chance if self.way == "mixture" and chance is not None else self.is_below(trust)
        return float(judged.mean())


def _draw(trust: Floats, known: Floats, way: str, split: str) -> Line:
    """By samples that are known to be wrong, where there are such and nobody wants it otherwise; else by a mixture."""
    if way == "samples" and not len(known):
        raise DataError(
            f"split {split} of this run has no threshold samples: train with -P threshold_samples=true, which gives "
            "some to the split train, or type --threshold mixture."
        )
    mixture = fit(trust)
    if len(known) and way != "mixture":
        return Line("samples", float(np.percentile(known, PERCENTILE)), mixture)
    if mixture and mixture.is_of_wrong_labels:
        return Line("mixture", mixture.threshold, mixture)
    return Line("none", None, mixture)


def check_threshold(way: str) -> float | None:
    """The share of wrong labels that somebody expects, 0.2 or 20%; None of a word that says where the line is from."""
    number, percent, _ = way.strip().partition("%")
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError:
        if way not in WAYS:
            raise QueryError(f"a threshold comes from {', '.join(WAYS)} or {GIVEN}. {nearest(way, WAYS)}") from None
        return None
    if not 0 < share < 1:
        raise QueryError(f"a share of wrong labels lies between 0 and 1, found {way}: type --threshold 20%.")
    return share


def _cut(trust: Floats, share: float) -> Line:
    """Between the least trusted, as many as are expected to be wrong, and the others."""
    at = max(1, min(round(share * len(trust)), len(trust) - 1))
    return Line("share", float(np.partition(trust, at)[at]), fit(trust))


def trust_of(score: Floats, by: str) -> Floats:
    """A score as the mixture wants it: higher for right labels, 0 where label and rival are even, not skewed.

    aum is so already. A mean confidence has its logit, a mean loss its logarithm: both are squeezed at their ends.
    """
    if by == "confidence":
        inside = np.clip(score, SMALLEST, 1 - SMALLEST)
        return np.asarray(np.log(inside / (1 - inside)))
    if by == "action":
        return np.asarray(np.log(np.log(2) / np.maximum(score, SMALLEST)))
    return score


def score_of(trust: Floats, by: str) -> Floats:
    """The other way: the score that has this trust."""
    if by == "confidence":
        return np.asarray(1 / (1 + np.exp(-trust)))
    return np.asarray(np.log(2) / np.exp(trust)) if by == "action" else trust


def _check_score(by: str) -> None:
    if by not in SCORES:
        raise QueryError(f"labels are audited by {', '.join(SCORES[:-1])} or {SCORES[-1]}, not by {by}: type --by aum.")


def _judged(asked: pa.Table, by: str) -> tuple[Floats, NDArray[np.bool_]]:
    """The finite trusts, and which rows have one."""
    scores = _scores(asked, by)
    finite = np.isfinite(scores)
    return trust_of(scores[finite], by), finite


def _scores(rows: pa.Table, by: str) -> Floats:
    """The score in question; for action its mean, so that a sample that was seen less often is not trusted more."""
    column = rows["action_mean" if by == "action" else by]
    return np.asarray(column.to_numpy(), np.float64)


def _labelled(session: Session, split: str, no_class: int) -> int:
    """How many samples have a label of their own."""
    rows = session.sql(
        "select count(*) as samples from scores where split = $split and label <> $no_class",
        split=split,
        no_class=no_class,
    )
    return int(rows["samples"][0].as_py())


def _check_enough(asked: pa.Table, trust: Floats, labelled: int, by: str, split: str) -> None:
    if not labelled:
        raise DataError(
            f"no {split} sample of this run has a label: an audit is of a training that tells classes apart."
        )
    if len(trust) < FEWEST:
        raise DataError(
            f"only {len(trust):,} of {labelled:,} {split} samples have a finite {by}, and a threshold is found "
            f"among {FEWEST} at least: `actionflow query label_suspects -p split={split}` ranks what there is, "
            "--by action does with losses alone."
        )
    if np.ptp(trust) == 0:
        raise DataError(
            f"every {split} sample has the same {by}, {_scores(asked, by)[0]:.4g}, so none stands out: train until the "
            "model has learnt something."
        )


def _trust_of_threshold_samples(session: Session, split: str, by: str, no_class: int) -> Floats:
    """Of the samples that were given a class of their own: how labels look that are wrong for sure."""
    rows = session.sql(
        "select aum, confidence, action_mean from scores where split = $split and label = $no_class order by sample_id",
        split=split,
        no_class=no_class,
    )
    return _judged(rows, by)[0]


def _suggested(
    session: Session, run_id: str, split: str, judged: pa.Table, no_class: int
) -> pa.ChunkedArray | pa.Array:
    """The class that the model gave the most probability, next to the label's; else what it said in most epochs."""
    if not has_probabilities(session):
        return judged["suggested"]
    mean = mean_probabilities(session, run_id, split, no_class)
    return pa.array(mean.best_others()[np.searchsorted(mean.sample_ids, judged["sample_id"].to_numpy())])


def _table(
    judged: pa.Table,
    suggested: pa.ChunkedArray | pa.Array,
    by: str,
    chance: Floats | None,
    suspect: NDArray[np.bool_],
) -> pa.Table:
    """The rows of an audit, most suspicious first."""
    rows = judged.num_rows
    return pa.table(
        {
            "run_id": judged["run_id"],
            "split": judged["split"],
            "suspect_rank": pa.array(np.arange(1, rows + 1, dtype=np.int64)),
            "sample_id": judged["sample_id"],
            "label": judged["label"],
            "suggested": suggested.cast(pa.int32()),
            "score_name": pa.array([by] * rows),
            "score": _scores(judged, by),
            "chance_wrong": pa.nulls(rows, pa.float64()) if chance is None else chance,
            "suspect": suspect,
        }
    )
