"""Group the samples of a run by their loss curves: which it found easy from the start, and which it never learnt."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlflow import MlflowClient

from actionflow.analysis.curves import Clusters, cluster_curves
from actionflow.errors import ActionFlowError, StoreError
from actionflow.present.curves import curves_text
from actionflow.session import Session, connect, say
from actionflow.store import layout
from actionflow.store.reading import StoredRun
from actionflow.store.showing import log_table, told
from actionflow.store.writing import RunWriter

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CROSS_ENTROPY = "cross-entropy loss (nats)"


@dataclass(frozen=True, kw_only=True)
class Curves(Clusters):
    """The loss curves of one split of a run, grouped by k-means.

    The tables `members`, `clusters`, `centres` and `closest` hold the answer; `log` writes it into the run.
    """

    run_id: str
    run_name: str
    split: str
    k: int
    seed: int
    measure: str = "loss"
    tracking_uri: str | None = None

    def text(self, width: int | None = None) -> str:
        """One block for each cluster, its centre and its closest samples, for a terminal."""
        columns = width or shutil.get_terminal_size(fallback=(120, 24)).columns
        return curves_text(self._title(), self.clusters, self.centres, self.closest, columns)

    def figure(self) -> Figure:
        """The centres, each with its closest curves."""
        from actionflow.present.figures import loss_curves

        return loss_curves(self._title(), self.measure, self.clusters, self.centres, self.closest)

    def notes(self) -> list[str]:
        """What was left out."""
        told = []
        if self.unseen:
            told.append(f"{self.run_name}: {self.unseen:,} samples left out, which were not seen in every epoch.")
        if self.not_finite:
            told.append(f"{self.run_name}: {self.not_finite:,} samples left out, with a loss that is not finite.")
        return told

    def log(self) -> str:
        """Write clusters, figure and closest samples into the run that was clustered, and return its id.

        The run may have finished or still be open. A clustering of the same split that it holds already is replaced.
        """
        client = MlflowClient(tracking_uri=self.tracking_uri)
        # Other splits have names of their own: what everybody looks at first is val.
        name = "loss_curves" if self.split == "val" else f"loss_curves_{self.split}"
        with told(client, "curves"):
            # At the root: there MLflow's compare page finds pictures.
            client.log_figure(self.run_id, self.figure(), f"{name}.png")
            log_table(client, self.run_id, self.closest.to_pydict(), f"{name}.json")
        writer = RunWriter(self.run_id, client)
        facts = {"k": self.k, "seed": self.seed, "unseen": self.unseen, "not_finite": self.not_finite}
        writer.log_clusters(self.split, self.members, **facts, epochs=self.epochs)
        writer.sender.leave()
        return self.run_id

    def _title(self) -> str:
        first, last = self.epochs[0], self.epochs[-1]
        when = f"epochs {first} to {last}" if last > first else f"epoch {first}"
        return f"{self.run_name}: {self.members.num_rows:,} {self.split} loss curves, {when}"


def curves(
    run: str, k: int = 3, split: str = "val", closest: int = 3, seed: int = 0, tracking_uri: str | None = None
) -> Curves:
    """Group the loss curves of a run's samples by k-means into k clusters, named by how hard they are.

        curves = actionflow.curves("digits-seed-0", k=3)
        curves.members.to_pandas()
        curves.log()

    `closest` is how many samples are told of each cluster: those whose curve is nearest to its centre.
    """
    with connect(run, tracking_uri=tracking_uri) as session:
        source = only(session, run)
        source.check_split(split)
        found = cluster_curves(session, source.run_id, split, k, closest, seed)
    return Curves(
        **vars(found),
        run_id=source.run_id,
        run_name=source.name,
        split=split,
        k=k,
        seed=seed,
        measure=_measure(source, found),
        tracking_uri=tracking_uri,
    )


def log_curves(
    run_id: str, split: str = "val", k: int = 3, tracking_uri: str | None = None, say: Callable[[str], None] = say
) -> Curves | None:
    """What a training does when its last epoch is written: cluster, and keep the answer in the run, which may be open.

    Too few samples for k clusters are told and no reason for a training to fail.
    """
    try:
        found = curves(run_id, k, split, tracking_uri=tracking_uri)
        found.log()
    except ActionFlowError as error:
        say(f"No loss curves: {error}")
        return None
    for note in found.notes():
        say(note)
    return found


def only(session: Session, run: str, what: str = "curves are") -> StoredRun:
    """The one run that a session has open."""
    if len(session.runs) != 1:
        raise StoreError(f"{what} of one run, but {run} stands for {len(session.runs)}: type its id or name.")
    return session.runs[0]


def _measure(run: StoredRun, found: Clusters) -> str:
    """What the losses are: the trainings here, and whoever recorded logits, have cross-entropy; others may not."""
    by_class = any(name for names in found.closest["predicted"].to_pylist() for name in names)
    return CROSS_ENTROPY if by_class or layout.TAG_TASK in run.run.data.tags else "loss"
