"""The desk where visitors ask: finds the runs they may read, and answers from them.

Two ways lead to an answer. `ask_sql` and `ask_query` are for strangers' SQL and its like: each question runs in a
process of its own (see `sandbox`). `session` is for the questions of our own pages: it opens the runs in the server
itself, where they stay open, and asks only what the house wrote; what a visitor typed is a parameter at most.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

import pyarrow as pa
from mlflow.server.constants import ARTIFACTS_DESTINATION_ENV_VAR, BACKEND_STORE_URI_ENV_VAR

from actionflow.errors import QueryError, StoreError, nearest
from actionflow.labelling import keep_labels
from actionflow.marking import check_marks
from actionflow.questions import files
from actionflow.questions.files import Value
from actionflow.serving.answering import Question, View
from actionflow.serving.sandbox import Answer, Sandbox
from actionflow.serving.visitors import ForbiddenError, Visitor, VisitorClient
from actionflow.session import RUN_PARAMETERS, Session, runs_named
from actionflow.sources import VIEWS, Say, Source, source_of, source_of_run
from actionflow.store import layout
from actionflow.store.finding import all_experiments, find_runs, pick
from actionflow.store.marks import Mark, add_marks, marks_of
from actionflow.store.reading import StoredRun
from actionflow.store.scenario_labels import ScenarioLabel

logger = logging.getLogger(__name__)

# What costs something to find out of a run: reading its last epochs, and adding up the scores of an unfinished one.
WORTH_KEEPING = ("dynamics", "scores")
KEPT_RUNS, KEPT_SESSIONS = 4096, 16
# Runs elsewhere are looked at again after this long, and open sessions made anew.
SECONDS_ELSEWHERE, SECONDS_OF_A_SESSION = 10, 60
# A browser asks for the pictures of a page right after the page.
SECONDS_OF_A_PAGE = 10

_COMMENT = re.compile(r"^\s*--.*$", re.MULTILINE)


@dataclass
class Open:
    """A session that is open, as of when, and the lock of whoever asks it: DuckDB answers one at a time."""

    session: Session
    state: Hashable
    made: float = field(default_factory=time.monotonic)
    looked_up: float = field(default_factory=time.monotonic)
    asking: Lock = field(default_factory=Lock)


class Desk:
    """Answers visitors of one server."""

    def __init__(self, sandbox: Sandbox | None = None) -> None:
        self.store = os.environ[BACKEND_STORE_URI_ENV_VAR]
        self.destination = os.environ.get(ARTIFACTS_DESTINATION_ENV_VAR, "")
        self.sandbox = sandbox or Sandbox()
        self._sources: OrderedDict[tuple[str, str], tuple[Hashable, Source]] = OrderedDict()
        self._open: OrderedDict[Hashable, Open] = OrderedDict()
        self._tidying = Lock()

    def client(self, visitor: Visitor) -> VisitorClient:
        """The store as this visitor may see it."""
        return VisitorClient(self.store, self.destination, visitor)

    def runs(self, visitor: Visitor, words: Sequence[str] = ()) -> list[StoredRun]:
        """The runs that these words stand for, as in `connect`, among those that the visitor may read."""
        return find_runs(list(words), self.client(visitor))

    def ask_sql(
        self,
        visitor: Visitor,
        sql: str,
        words: Sequence[str] = (),
        parameters: Mapping[str, Value] | None = None,
        form: str = "json",
        most_rows: int | None = None,
    ) -> Answer:
        """Answer a stranger's SQL, encoded in a form of `forms.MEDIA_TYPES`; a page has room for so many rows."""
        limits = self.sandbox.limits
        if most_rows is not None:
            limits = replace(limits, rows=min(most_rows, limits.rows))
        if len(sql.encode()) > 1024 * limits.sql_kilobytes:
            raise QueryError(f"a question has at most {limits.sql_kilobytes} KB.")
        views = self._views(sql, self.runs(visitor, words))
        return self.sandbox.ask(Question(sql, form, limits, dict(parameters or {}), views))

    def ask_query(
        self,
        visitor: Visitor,
        name: str,
        words: Sequence[str] = (),
        parameters: Mapping[str, Value] | None = None,
        form: str = "json",
    ) -> Answer:
        """Answer a question of the house by its name, within the same limits."""
        query = house_query(name)
        given = dict(parameters or {})
        query.check(given)
        runs = self.runs(visitor, words or runs_named(given))
        for each in RUN_PARAMETERS:
            if each in given:
                given[each] = pick(str(given[each]), runs)
        views = self._views(query.sql, runs)
        return self.sandbox.ask(Question(query.sql, form, self.sandbox.limits, query.bind(given), views))

    @contextmanager
    def session(self, visitor: Visitor, words: Sequence[str] = ()) -> Iterator[Session]:
        """Open runs to ask what the house wrote; they stay open for the next visitor until one of them changes."""
        kept = self._opened(visitor, self.runs(visitor, words))
        with kept.asking:
            yield kept.session

    @contextmanager
    def session_of_a_page(self, visitor: Visitor, run_id: str) -> Iterator[Session]:
        """What a page has just opened, for the sixty pictures on it: MLflow is not asked sixty times who may see it."""
        kept = self._open.get((visitor.name, run_id))
        if kept is None or time.monotonic() - kept.looked_up > SECONDS_OF_A_PAGE:
            kept = self._opened(visitor, self.runs(visitor, [run_id]))
        with kept.asking:
            yield kept.session

    def mark(self, visitor: Visitor, run: str, marks: Sequence[Mark], marked_by: str = "") -> pa.Table:
        """Write marks on samples of a run's data set; with auth on they carry the visitor's own name."""
        (marked,) = _only(run, self.runs(visitor, [run]))
        info, tags = marked.run.info, marked.run.data.tags
        if not visitor.may_write(info.experiment_id):
            raise ForbiddenError(f"{visitor.name} may look at run {marked.name} but not mark its samples.")
        with self.session(visitor, [marked.run_id]) as session:
            check_marks(session, marked, marks)
        digest = tags.get(layout.TAG_DIGEST, "")
        who = visitor.name or marked_by or "anybody"
        rows = add_marks(self.client(visitor), info.experiment_id, digest, marks, who)
        self._forget(info.experiment_id)
        return rows

    def label(self, visitor: Visitor, distilled: StoredRun, labels: Sequence[ScenarioLabel], labelled_by: str) -> None:
        """Write what a visitor says of failure scenarios; with auth on it carries the visitor's own name."""
        experiment_id = distilled.run.info.experiment_id
        if not visitor.may_write(experiment_id):
            raise ForbiddenError(f"{visitor.name} may look at run {distilled.name} but not label its scenarios.")
        keep_labels(self.client(visitor), distilled, labels, visitor.name or labelled_by or "anybody")

    def marks(self, visitor: Visitor, experiment: str = "", history: bool = False) -> pa.Table:
        """The marks of an experiment, by its name or id; of all that the visitor may read when none is named."""
        client = self.client(visitor)
        found = [each for each in all_experiments(client) if experiment in ("", each.name, each.experiment_id)]
        if experiment and not found:
            raise StoreError(f"there is no experiment {experiment}.")
        tables = [marks_of(client, each.experiment_id, history) for each in found]
        return pa.concat_tables(tables) if tables else VIEWS["marks"].empty_table()

    def close(self) -> None:
        """End all processes."""
        self.sandbox.close()

    def _views(self, sql: str, runs: list[StoredRun]) -> dict[str, View]:
        """The views that a question may read: those whose names stand in it, be it only as a word.

        Parsing it would be exact, and is what we do not want to do here with a stranger's text.
        """
        text = _COMMENT.sub("", sql).lower()
        named = [name for name in VIEWS if re.search(rf"\b{name}\b", text)]
        sources = {name: source_of(name, runs, logger.info, self._source) for name in named}
        return {
            name: View(tuple(str(path) for path in source.files), source.rows, VIEWS[name])
            for name, source in sources.items()
        }

    def _source(self, view: str, run: StoredRun, say: Say) -> Source:
        if view not in WORTH_KEEPING:
            return source_of_run(view, run, say)
        state = _state(run)
        known = self._sources.get((run.run_id, view))
        if known is None or known[0] != state:
            known = (state, source_of_run(view, run, say))
            with self._tidying:
                self._sources[run.run_id, view] = known
                while len(self._sources) > KEPT_RUNS:
                    self._sources.popitem(last=False)
        return known[1]

    def _opened(self, visitor: Visitor, runs: list[StoredRun]) -> Open:
        key = (visitor.name, *(run.run_id for run in runs))
        state = tuple((_state(run), _told_by_mlflow(run)) for run in runs)
        with self._tidying:
            kept = self._open.get(key)
            if kept is None or kept.state != state or time.monotonic() - kept.made > SECONDS_OF_A_SESSION:
                kept = self._open[key] = Open(Session(runs, logger.info, of_one=self._source), state)
            kept.looked_up = time.monotonic()
            self._open.move_to_end(key)
            while len(self._open) > KEPT_SESSIONS:
                self._open.popitem(last=False)
        return kept

    def _forget(self, experiment_id: str) -> None:
        """Somebody has marked: sessions on this experiment would show the marks from before."""
        with self._tidying:
            for key, kept in list(self._open.items()):
                if any(run.run.info.experiment_id == experiment_id for run in kept.session.runs):
                    del self._open[key]


def house_query(name: str) -> files.QueryFile:
    """A query of the house; the name comes from a stranger and must not lead to another folder."""
    if name not in files.names():
        raise QueryError(f"there is no query {name!r}. {nearest(name, files.names())}")
    return files.load(name)


def _only(word: str, runs: list[StoredRun]) -> list[StoredRun]:
    if len(runs) != 1:
        raise StoreError(f"marks go to one run, but {word} stands for {len(runs)}: give its id or name.")
    return runs


def _state(run: StoredRun) -> Hashable:
    """What changes whenever files of a run do.

    In the run's own folder that is what the folders hold; elsewhere it is not looked up for every question.
    """
    if run.folder is None:
        return (run.run.info.status, int(time.monotonic() / SECONDS_ELSEWHERE))
    found: list[Any] = []
    for folder, _, names in os.walk(run.folder / layout.ROOT):
        found.append((folder, os.stat(folder).st_mtime_ns))
        # The epochs of a finished run never change: their folder tells of a new or missing one.
        if run.run.info.status != "FINISHED" or layout.DYNAMICS not in folder:
            found += [(name, os.stat(os.path.join(folder, name)).st_size) for name in names]
    return tuple(found)


def _told_by_mlflow(run: StoredRun) -> Hashable:
    data = run.run.data
    return (run.name, run.run.info.status, frozenset(data.metrics.items()), frozenset(data.tags.items()))
