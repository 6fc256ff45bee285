"""Group samples by their loss curves: k-means over what each sample lost in each epoch.

A cluster is named by its level, the mean of its centre over the epochs. The same seed gives the same clusters, bit for
bit: sums that several threads share depend on who comes first, so k-means runs on one.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from actionflow.errors import DataError, SettingsError
from actionflow.session import Session

# k-means finds the nearest good answer to where it starts; the best of ten starts is hardly ever beaten.
STARTS = 10
NAMES = {1: ("all",), 2: ("easy", "difficult"), 3: ("easy", "medium", "difficult")}
WORDS = r"\S+"

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Clusters:
    """The samples of a split by their loss curves, as tables; clusters are numbered from 1, the easiest.

    `members` has a row per sample, `clusters` one per cluster, `centres` one per cluster and epoch, and `closest` one
    per sample that is among the closest to its centre, with its losses and predicted classes by epoch as lists.
    `unseen` samples were not met in every epoch and `not_finite` ones have a loss that is no number: both are left out.
    """

    members: pa.Table
    clusters: pa.Table
    centres: pa.Table
    closest: pa.Table
    unseen: int
    not_finite: int

    @property
    def epochs(self) -> list[int]:
        """The epochs of the curves."""
        return sorted(set(self.centres["epoch"].to_pylist()))


@dataclass(frozen=True)
class LossCurves:
    """Curves as rows of a matrix, for the samples that have a finite loss in every epoch, in the order of their ids."""

    sample_ids: Ints
    epochs: NDArray[np.int32]
    losses: Floats
    unseen: int
    not_finite: int


@dataclass(frozen=True)
class Groups:
    """What k-means found: each curve's cluster (from 0, the easiest), its distance to the centre, and the centres."""

    clusters: Ints
    distances: Floats
    centres: Floats


def cluster_curves(session: Session, run_id: str, split: str, k: int = 3, closest: int = 3, seed: int = 0) -> Clusters:
    """Group the samples of one split of a run that the session has open."""
    check(k, closest, seed)
    points = session.query("sample_curves", run_id=run_id, split=split)
    curves = as_matrix(points)
    _check_enough(curves, k, split)
    groups = group(curves.losses, k, seed)
    facts = session.query("descriptions", run_id=run_id)
    counts = np.bincount(groups.clusters, minlength=k)
    heads = {
        "cluster": pa.array(np.arange(1, k + 1), pa.int32()),
        "name": pa.array(cluster_names(k)),
        "samples": pa.array(counts),
        "share": pa.array(counts / counts.sum()),
    }
    lengths = _lengths(_of_samples(facts, curves.sample_ids), _token_counts(session, run_id, split, curves), groups)
    return Clusters(
        members=_members(curves, groups, heads["name"]),
        clusters=pa.table({**heads, "mean_loss": groups.centres.mean(axis=1), **lengths}),
        centres=_centres(pa.table(heads), curves.epochs, groups.centres),
        closest=_closest(curves, groups, points, facts, heads["name"], closest),
        unseen=curves.unseen,
        not_finite=curves.not_finite,
    )


def check(k: int, closest: int, seed: int) -> None:
    """Refuse numbers that cannot be meant."""
    if k < 1:
        raise SettingsError(f"k, the number of clusters, is at least 1, found {k}: type for instance -k 3.")
    if closest < 0:
        raise SettingsError(f"closest, the samples shown of each cluster, is at least 0, found {closest}.")
    if not 0 <= seed < 2**32:
        raise SettingsError(f"seed is a number from 0 to 4294967295, found {seed}.")


def as_matrix(points: pa.Table) -> LossCurves:
    """The curves of points (`sample_id`, `epoch`, `loss`) in any order, without a loop over samples."""
    sample_ids, rows = _numbered(points["sample_id"])
    epochs, columns = _numbered(points["epoch"])
    losses = np.full((len(sample_ids), len(epochs)), np.nan)
    losses[rows, columns] = points["loss"].to_numpy()
    seen = np.zeros(losses.shape, bool)
    seen[rows, columns] = True
    always, finite = seen.all(axis=1), np.isfinite(losses).all(axis=1)
    return LossCurves(
        sample_ids=sample_ids[finite],
        epochs=epochs.astype(np.int32),
        losses=losses[finite],
        unseen=int((~always).sum()),
        not_finite=int((always & ~finite).sum()),
    )


def group(losses: Floats, k: int, seed: int = 0) -> Groups:
    """k-means of curves (n, epochs), its clusters in the order of their level.

    >>> group(np.array([[9.0, 9.0], [0.0, 0.0], [9.0, 9.0], [1.0, 1.0]]), k=2).clusters
    array([1, 0, 1, 0])
    """
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = KMeans(k, n_init=STARTS, random_state=seed).fit(losses)
    different = len(np.unique(found.labels_))
    if different < k:
        raise SettingsError(
            f"k is {k}, but the {len(losses):,} curves have only {different} forms: type -k {different}."
        )
    order = np.argsort(found.cluster_centers_.mean(axis=1), kind="stable")
    centres = found.cluster_centers_[order]
    clusters = np.argsort(order)[found.labels_]
    return Groups(clusters, np.linalg.norm(losses - centres[clusters], axis=1), centres)


def cluster_names(k: int) -> list[str]:
    """What k clusters are called, from the easiest on.

    >>> cluster_names(3), cluster_names(4)
    (['easy', 'medium', 'difficult'], ['1 of 4 (easiest)', '2 of 4', '3 of 4', '4 of 4 (most difficult)'])
    """
    if k in NAMES:
        return list(NAMES[k])
    ends = {1: " (easiest)", k: " (most difficult)"}
    return [f"{number} of {k}{ends.get(number, '')}" for number in range(1, k + 1)]


def word_counts(texts: pa.ChunkedArray) -> Floats:
    """How many words each text has; NaN where there is none.

    >>> word_counts(pa.chunked_array([["one  two ", "", None]]))
    array([ 2.,  0., nan])
    """
    return _floats(pc.count_substring_regex(texts, WORDS))


def _check_enough(curves: LossCurves, k: int, split: str) -> None:
    samples = len(curves.sample_ids)
    if not samples:
        raise DataError(
            f"no sample of split {split} has a loss curve: {curves.unseen:,} were not seen in every epoch, "
            f"{curves.not_finite:,} have a loss that is not finite."
        )
    if k > samples:
        raise SettingsError(f"k is {k}, but split {split} has only {samples:,} loss curves: type -k {min(3, samples)}.")


def _numbered(column: pa.ChunkedArray) -> tuple[Ints, Ints]:
    """The different values in order, and for each row the place of its value among them."""
    encoded = column.combine_chunks().dictionary_encode()
    values = encoded.dictionary.to_numpy()
    order = np.argsort(values)
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return values[order], places[encoded.indices.to_numpy()]


def _of_samples(facts: pa.Table, sample_ids: Ints) -> pa.Table:
    """The rows about these samples, in their order; null where nothing is known."""
    return facts.take(pc.index_in(pa.array(sample_ids), facts["sample_id"].combine_chunks()))


def _token_counts(session: Session, run_id: str, split: str, curves: LossCurves) -> Floats:
    """The samples' lengths in tokens, where a task recorded them: always the same number, whatever the epoch."""
    if "tokens" not in session.sql("select * from dynamics limit 0").column_names:
        return np.full(len(curves.sample_ids), np.nan)
    counts = session.sql(
        "select sample_id, max(tokens) as tokens from dynamics where run_id = $run_id and split = $split group by all",
        run_id=run_id,
        split=split,
    )
    return _floats(_of_samples(counts, curves.sample_ids)["tokens"])


def _lengths(facts: pa.Table, tokens: Floats, groups: Groups) -> dict[str, pa.Array]:
    """Mean lengths of each cluster's samples: words of their texts, and tokens."""
    lengths = {
        "mean_text_words": word_counts(facts["text"]),
        "mean_context_words": word_counts(facts["context"]),
        "mean_target_words": word_counts(facts["target_text"]),
        "mean_tokens": tokens,
    }
    return {name: _means(values, groups) for name, values in lengths.items()}


def _means(values: Floats, groups: Groups) -> pa.Array:
    """The mean of each cluster over the samples that have a value; null where none has."""
    known = np.isfinite(values)
    k = len(groups.centres)
    counts = np.bincount(groups.clusters[known], minlength=k)
    sums = np.bincount(groups.clusters[known], weights=values[known], minlength=k)
    return pa.array(sums / np.maximum(counts, 1), mask=counts == 0)


def _members(curves: LossCurves, groups: Groups, names: pa.Array) -> pa.Table:
    columns = {
        "sample_id": pa.array(curves.sample_ids),
        "cluster": pa.array(groups.clusters + 1, pa.int32()),
        "name": names.take(pa.array(groups.clusters)),
        "distance": pa.array(groups.distances),
    }
    return pa.table(columns)


def _centres(heads: pa.Table, epochs: NDArray[np.int32], centres: Floats) -> pa.Table:
    """A row for each cluster and epoch."""
    k, length = centres.shape
    table = heads.take(pa.array(np.repeat(np.arange(k), length)))
    return table.append_column("epoch", pa.array(np.tile(epochs, k))).append_column("loss", pa.array(centres.ravel()))


def _closest(
    curves: LossCurves, groups: Groups, points: pa.Table, facts: pa.Table, names: pa.Array, count: int
) -> pa.Table:
    """The samples closest to each centre, what they are, and how they fared; ties go by sample id."""
    chosen = [_nearest(groups, cluster, count) for cluster in range(len(groups.centres))]
    rows = np.concatenate(chosen)
    clusters = pa.array(groups.clusters[rows])
    ids = curves.sample_ids[rows]
    known = _of_samples(facts, ids)
    paths = _paths(points, ids)
    classes = _class_names(facts) if rows.size else {}
    labels = [path["label"][0] for path in paths]
    columns = {
        "cluster": pa.array(groups.clusters[rows] + 1, pa.int32()),
        "name": names.take(clusters),
        "place": pa.array([place for some in chosen for place in range(1, len(some) + 1)], pa.int32()),
        "sample_id": pa.array(ids),
        "distance": pa.array(groups.distances[rows]),
        "key": known["key"],
        "label": pa.array(labels, pa.int32()),
        "label_name": pa.array(_named(labels, classes), pa.string()),
        "text": known["text"],
        "context": known["context"],
        "target_text": known["target_text"],
        "losses": pa.array(curves.losses[rows].tolist(), pa.list_(pa.float64())),
        "predicted": pa.array([_named(path["prediction"], classes) for path in paths], pa.list_(pa.string())),
    }
    return pa.table(columns)


def _nearest(groups: Groups, cluster: int, count: int) -> Ints:
    members = np.flatnonzero(groups.clusters == cluster)
    return members[np.argsort(groups.distances[members], kind="stable")[:count]]


def _paths(points: pa.Table, sample_ids: Ints) -> list[dict[str, list[Any]]]:
    """The points of some samples, each sample's as lists by epoch, in the order of these ids."""
    few = points.filter(pc.is_in(points["sample_id"], pa.array(sample_ids))).sort_by("epoch").to_pylist()
    paths: dict[int, dict[str, list[Any]]] = {int(each): {"label": [], "prediction": []} for each in sample_ids}
    for row in few:
        for column, values in paths[row["sample_id"]].items():
            values.append(row[column])
    return list(paths.values())


def _class_names(facts: pa.Table) -> dict[int, str]:
    named = facts.select(["label", "label_name"]).drop_null().group_by("label").aggregate([("label_name", "max")])
    return dict(zip(named["label"].to_pylist(), named["label_name_max"].to_pylist(), strict=True))


def _named(labels: Sequence[int | None], classes: dict[int, str]) -> list[str | None]:
    """Classes by name; by number where the data set's names are not at hand."""
    return [None if label is None else classes.get(label, str(label)) for label in labels]


def _floats(numbers: pa.ChunkedArray) -> Floats:
    return np.asarray(numbers.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)
