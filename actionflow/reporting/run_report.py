"""The report of one run: a page, pictures and a note, in the run itself, where MLflow's own pages show them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from mlflow import MlflowClient
from mlflow.entities import RunStatus

from actionflow.clustering import Curves, only
from actionflow.present.pages.page import Page
from actionflow.reporting.findings import Findings, find
from actionflow.reporting.keepsakes import log_keepsakes
from actionflow.reporting.neighbours import why_none
from actionflow.reporting.note import escaped, note, write_note
from actionflow.reporting.sections import Drawing, draw_points, sections
from actionflow.session import Session, connect, say
from actionflow.store import layout
from actionflow.store.reading import StoredRun
from actionflow.store.showing import told

PAGE = "action_report"


@dataclass(frozen=True)
class Report:
    """What a run found hard: `html()` is one file that needs nothing else, `log()` writes it and more into the run."""

    run_id: str
    run_name: str
    split: str
    epochs: int
    facts: tuple[tuple[str, str], ...]
    found: Findings
    warning: str = ""
    is_first_look: bool = True
    tracking_uri: str | None = None

    def html(self) -> str:
        """The page, about a megabyte and what its samples take."""
        return self._page

    def notes(self) -> list[str]:
        """What was left out, and what could not be shown."""
        curves = [f"No loss curves: {self.found.no_curves}"] if self.found.no_curves else []
        alone = [] if self.found.neighbours.table.num_rows else [why_none(self.run_name, self.split)]
        return [*([self.warning] if self.warning else []), *self._drawing.notes, *curves, *alone]

    def log(self) -> str:
        """Write page, pictures, table and note into the run, in place of earlier ones, and return its id."""
        client = MlflowClient(tracking_uri=self.tracking_uri)
        with told(client, "report"):
            self.write(client)
        return self.run_id

    def write(self, client: MlflowClient) -> None:
        """The same with a client that is there already."""
        title = f"{self.found.samples:,} {self.split} samples, {_counted(self.epochs, 'epoch')}"
        log_keepsakes(client, self.run_id, self.found, title, self.named)
        # At the root: there MLflow's compare page finds pictures and pages.
        client.log_text(self.run_id, self.html(), f"{self.named(PAGE)}.html")
        if self.is_first_look:
            write_note(client, self.run_id, note(self.run_id, self._about(), self.split, self.found))

    def named(self, artifact: str) -> str:
        """What an artifact is called: splits that are not looked at first have names of their own."""
        return artifact if self.is_first_look else f"{artifact}_{self.split}"

    @cached_property
    def _page(self) -> str:
        """Made once: the points that figures share belong to one document."""
        return Page(
            title=f"{self.run_name}: {self.split} samples by action",
            facts=self.facts,
            sections=sections(self.found, self._drawing),
            warning=self.warning,
            pictures=self._drawing.pictures,
            shown=self._drawing.shown,
            points=[self._drawing.points],
            classes=self.found.names,
        ).html()

    @cached_property
    def _drawing(self) -> Drawing:
        return draw_points(self.found)

    def _about(self) -> str:
        known = ", ".join(f"{word} **{escaped(value)}**" for word, value in self.facts if word in ("data set", "model"))
        seen = f"{_counted(self.epochs, 'epoch')}, {self.found.samples:,} {self.split} samples by their action."
        return f"{known}: {seen}" if known else seen


def report(run: str, split: str | None = None, tracking_uri: str | None = None) -> Report:
    """Ask what a page shows of a run: which samples it found hard, and how it came to that.

        report = actionflow.report("digits-seed-0")
        report.log()
        Path("report.html").write_text(report.html())

    Without `split` it is val, or what the run recorded instead. A run that still trains shows the epochs it has.
    """
    with connect(run, tracking_uri=tracking_uri) as session:
        source = only(session, run, "a report is")
        return _report(session, source, split, None, tracking_uri, _unfinished(source))


def log_report(
    run_id: str, split: str, curves: Curves | None, client: MlflowClient, say: Callable[[str], None] = say
) -> None:
    """What a training does when its last epoch is written: report into its run, which is still open.

    `curves` are the clusters it has made already.
    """
    source = StoredRun(client.get_run(run_id), client)
    with Session([source], say=say) as session:
        _report(session, source, split, curves, client.tracking_uri, warning="").write(client)


def shown_split(splits: Sequence[str]) -> str:
    """What people look at first: validation; a run that recorded nothing else shows its training samples.

    >>> shown_split(["test", "train", "val"]), shown_split(["test", "train"]), shown_split(["test"])
    ('val', 'train', 'test')
    """
    return next((split for split in ("val", "train", *splits) if split in splits), "val")


def _report(
    session: Session, run: StoredRun, split: str | None, curves: Curves | None, uri: str | None, warning: str
) -> Report:
    first = shown_split(run.splits())
    split = split or first
    run.check_split(split)
    found = find(session, run, split, curves, uri)
    epochs = len(run.recorded().epochs(split))
    return Report(
        run_id=run.run_id,
        run_name=run.name,
        split=split,
        epochs=epochs,
        facts=_facts(run, split, found.samples, epochs),
        found=found,
        warning=warning.format(epochs=_counted(epochs, "epoch")),
        is_first_look=split == first,
        tracking_uri=uri,
    )


def _facts(run: StoredRun, split: str, samples: int, epochs: int) -> tuple[tuple[str, str], ...]:
    tags, params = run.run.data.tags, run.run.data.params
    known = {
        "run": run.run_id,
        "data set": tags.get(layout.TAG_DATASET, ""),
        # Own loops have no tag of ours, but people log the parameter.
        "model": tags.get(layout.TAG_MODEL) or params.get("model", ""),
        "seed": params.get("seed", ""),
        "split": split,
        "samples": f"{samples:,}",
        "epochs": str(epochs),
    }
    return tuple((word, value) for word, value in known.items() if value)


def _unfinished(run: StoredRun) -> str:
    """What a reader must know of a run that has not come to its end."""
    status = run.run.info.status
    if status == RunStatus.to_string(RunStatus.FINISHED):
        return ""
    if status in (RunStatus.to_string(RunStatus.RUNNING), RunStatus.to_string(RunStatus.SCHEDULED)):
        return f"This run is still training: {{epochs}} so far. `actionflow report {run.run_id[:8]}` renews this page."
    return f"This run did not finish ({status}): this is what it recorded in {{epochs}}."


def _counted(count: int, word: str) -> str:
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"
