"""Audit the labels of a recorded run: which are probably wrong, how many, and what the model would call them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from mlflow import MlflowClient

from actionflow.analysis.mixture import APART, Mixture
from actionflow.analysis.probabilities import MeanProbabilities, has_probabilities, mean_probabilities
from actionflow.analysis.suspects import PERCENTILE, Suspects, find_suspects, trust_of
from actionflow.clustering import only
from actionflow.errors import DataError
from actionflow.marking import classes_of
from actionflow.present.audits import Spread, audit_figure, audit_text
from actionflow.reporting.samples import pictures_of
from actionflow.session import Session, connect, with_texts
from actionflow.store.reading import StoredRun
from actionflow.store.showing import log_table, told
from actionflow.store.writing import RunWriter

if TYPE_CHECKING:
    from PIL.Image import Image

# What the figure and the table in MLflow show.
MOST_SHOWN = 32
# What helps where no line is found.
INSTEAD = (
    "Look at the most suspicious; --threshold 5% takes as many as you expect to be wrong, and a training with "
    "-P threshold_samples=true brings samples that draw a line."
)


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What the labels of one split of a run look like to the model that was trained on them.

    - `suspects` a row per judged sample, most suspicious first: `run_id`, `split`, `suspect_rank`, `sample_id`,
      `label`, `suggested`, `score_name`, `score`, `chance_wrong`, `suspect`, `label_name`, `suggested_name`;
    - `threshold` in units of the score, None where the scores draw no line; `way` how it was found: from the run's
      threshold `samples`, by a `mixture`, from a `share` that was given, or `none`;
    - `share` the estimated share of wrong labels, or the given one;
    - `pairs` label and suggested label of the suspects, and how often.
    """

    run_id: str
    run_name: str
    split: str
    by: str
    suspects: pa.Table
    pairs: pa.Table
    found: Suspects = field(repr=False)
    pictures: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    tracking_uri: str | None = None

    @property
    def threshold(self) -> float | None:
        """The score at which a label is as likely wrong as right."""
        return self.found.threshold

    @property
    def way(self) -> str:
        """How the threshold was found: samples, mixture, share or none."""
        return self.found.way

    @property
    def share(self) -> float:
        """The estimated share of wrong labels among the judged samples."""
        return self.found.share

    def only_suspects(self) -> pa.Table:
        """The samples whose labels are suspect."""
        return self.suspects.filter(self.suspects["suspect"])

    def text(self, k: int = 20, width: int | None = None) -> str:
        """What was found in words, and the k most suspicious, for a terminal."""
        columns = width or shutil.get_terminal_size(fallback=(120, 24)).columns
        return audit_text(self.title(), self.findings(), self.pairs, self.suspects.slice(0, k), columns)

    def findings(self) -> list[str]:
        """What was found, a sentence for each thing."""
        told = [_verdict(self.found, self.by), _reason(self.found, self.by)]
        if self.found.unjudged:
            told.append(f"{self.found.unjudged:,} samples were not judged: {_why_not(self.found)}.")
        return told

    def title(self) -> str:
        """Which samples were judged, and by what."""
        return f"{self.run_name}: labels of {self.suspects.num_rows:,} {self.split} samples, judged by {self.by}"

    def figure(self) -> Image:
        """How the score is spread with the threshold in it, above the most suspicious pictures."""
        return audit_figure(
            self.title(), self.by, _spread(self.found, self.by), self.suspects.slice(0, MOST_SHOWN), self.pictures
        )

    def log(self) -> str:
        """Write table and figure into the run that was audited, and return its id; an earlier audit is replaced."""
        client = MlflowClient(tracking_uri=self.tracking_uri)
        name = "audit" if self.split == "train" else f"audit_{self.split}"
        with told(client, "audit"):
            client.log_image(self.run_id, self.figure(), f"{name}.png")
            shown = self.suspects.slice(0, MOST_SHOWN).drop_columns(["run_id", "split", "score_name"])
            log_table(client, self.run_id, shown.to_pydict(), f"{name}.json")
        writer = RunWriter(self.run_id, client)
        facts = {"by": self.by, "way": self.way, "threshold": self.threshold, "share": self.share}
        writer.log_audit(self.split, self.suspects, **facts, unjudged=self.found.unjudged)
        writer.sender.leave()
        return self.run_id


def audit(
    run: str,
    split: str = "train",
    by: str = "aum",
    threshold: str = "auto",
    tracking_uri: str | None = None,
) -> Audit:
    """Rank the samples of a run by how little the model agrees with their labels, and say which are suspect.

        audit = actionflow.audit("digits-seed-0")
        audit.only_suspects().to_pandas()
        audit.log()

    `by` is aum, confidence or action. `threshold` is `mixture` (normal distributions fitted to the score),
    `samples` (the run's threshold samples), `auto`: samples where the run has them, or the share of labels that are
    expected to be wrong, such as `0.2` or `20%`.
    """
    with connect(run, tracking_uri=tracking_uri) as session:
        source = only(session, run, "an audit is")
        check_audited(source, split)
        found = find_suspects(session, source.run_id, split, by, threshold, source.threshold_class)
        suspects = _named(found.ranked, classes_of(session, source))
        suspects = with_texts(session, suspects)
        session.engine.view_table("audits", suspects)
        pairs = session.query("label_pairs", split=split)
        pictures = pictures_of(session, source, suspects["sample_id"].slice(0, MOST_SHOWN).to_pylist())
    return Audit(
        run_id=source.run_id,
        run_name=source.name,
        split=split,
        by=by,
        suspects=suspects,
        pairs=pairs,
        found=found,
        pictures=pictures,
        tracking_uri=tracking_uri,
    )


def export_cleanlab(run: str, split: str, target: str, tracking_uri: str | None = None) -> Path:
    """Write the labels and the epoch-mean probabilities of a run's samples as cleanlab takes them; return the file.

        found = np.load("train.npz")
        cleanlab.filter.find_label_issues(found["labels"], found["pred_probs"])

    `target` is a file that ends in .npz, or a folder.
    """
    with connect(run, tracking_uri=tracking_uri) as session:
        source = only(session, run, "an audit is")
        check_audited(source, split)
        mean = _mean_probabilities(session, source, split)
    path = Path(target) if target.endswith(".npz") else Path(target) / f"{split}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, labels=mean.labels, pred_probs=mean.values, sample_ids=mean.sample_ids)
    return path


def check_audited(source: StoredRun, split: str) -> None:
    """Refuse a run that did not record what it was trained on, and say how it would have."""
    splits = source.splits()
    if split == "train" and splits and "train" not in splits:
        raise DataError(
            f"run {source.name} ({source.run_id[:8]}) recorded no split train, only {', '.join(splits)}: train it with "
            f"-P record=both to audit what it was trained on, or type --split {splits[-1]}"
        )
    source.check_split(split)


def _mean_probabilities(session: Session, source: StoredRun, split: str) -> MeanProbabilities:
    if not has_probabilities(session):
        raise DataError(
            f"run {source.name} ({source.run_id[:8]}) did not keep the probability of every class: train it with "
            "-P probabilities=true, or record it with actionflow.Recorder(probabilities=True)."
        )
    return mean_probabilities(session, source.run_id, split, source.threshold_class)


def _named(ranked: pa.Table, names: Mapping[int, str]) -> pa.Table:
    """The rows with the names of their classes."""
    keys, values = pa.array(list(names), pa.int32()), pa.array(list(names.values()), pa.string())
    for column in ("label", "suggested"):
        places = pc.index_in(ranked[column].cast(pa.int32()), keys)
        ranked = ranked.append_column(f"{column}_name", values.take(places.combine_chunks()))
    return ranked


def _verdict(found: Suspects, by: str) -> str:
    if found.threshold is None:
        return "The scores draw no line between wrong labels and right ones, which does not say that all are right."
    side = "above" if by == "action" else "below"
    score = "mean action" if by == "action" else by
    estimate = "" if found.way == "share" else f"; estimated share of wrong labels {100 * found.share:.1f} %"
    suspects = f"{found.count:,} of {found.ranked.num_rows:,} labels are suspect"
    return f"{suspects}, with {score} {side} {found.threshold:.4g}{estimate}."


def _reason(found: Suspects, by: str) -> str:
    """Where the threshold comes from, or why there is none."""
    if found.way == "samples":
        known = (
            f"The threshold is the {PERCENTILE}th percentile of {len(found.known):,} threshold samples, whose labels "
            "are wrong for sure."
        )
        is_of_wrong = found.mixture is not None and found.mixture.is_of_wrong_labels
        return known if is_of_wrong else f"{known} The scores themselves draw no line."
    if found.way == "share":
        return f"The threshold is where {100 * found.share:.3g} % of the labels lie beyond it, as was asked for."
    if found.way == "none":
        return f"{_why_none(found.mixture, by)} {INSTEAD}"
    return (
        "The threshold is where normal distributions that were fitted to the score, one of wrong labels and two of "
        "right ones, are even."
    )


def _why_none(mixture: Mixture | None, by: str) -> str:
    if mixture is None:
        return f"By {by} all labels win against the other classes, or all lose."
    if mixture.separation <= APART:
        return f"The lowest values of {by} are the tail of one hump: nothing lies apart from it."
    return (
        f"The lowest values of {by} are of hard samples, whose labels are about even with another class: they lose by "
        f"{100 * max(mixture.clarity, 0):.0f} % of what the others win by."
    )


def _why_not(found: Suspects) -> str:
    others = found.unjudged - len(found.known)
    told = ["the threshold samples, which a run with another seed judges"] if len(found.known) else []
    return " and ".join([*told, *([f"{others:,} without a finite score"] if others else [])])


def _spread(found: Suspects, by: str) -> Spread:
    line = None if found.threshold is None else float(trust_of(np.array([found.threshold]), by)[0])
    if found.mixture is None or not found.mixture.is_of_wrong_labels:
        return Spread(found.trust, line, found.known)
    at = np.linspace(found.trust.min(), found.trust.max(), 400)
    return Spread(found.trust, line, found.known, at, found.mixture.wrong.density(at), found.mixture.right_density(at))
