"""Ask questions of recorded runs: opens the views over the runs you name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import pyarrow as pa

from actionflow.errors import StoreError
from actionflow.questions import files
from actionflow.questions.engine import Engine, UnknownTableError
from actionflow.questions.files import Value
from actionflow.questions.scoring import score
from actionflow.store import layout, parquet, schema
from actionflow.store.finding import find_runs, pick, runs_table
from actionflow.store.reading import Recorded, StoredRun

Answer = TypeVar("Answer")

# Parameters of queries that stand for a run.
RUN_PARAMETERS = ("run_id", "run_a", "run_b")


def say(message: str) -> None:
    """Tell a person something that is not data."""
    print(message, file=sys.stderr)


class Session:
    """DuckDB with the views `runs`, `dynamics`, `samples`, `scores`, `features` and `curricula` over some runs.

    A view is made when a question first names it: listing a thousand runs opens none of their files.
    """

    def __init__(
        self, runs: Sequence[StoredRun], say: Callable[[str], None] = say, queries: Path | None = None
    ) -> None:
        self.runs = list(runs)
        self.queries = queries
        self.engine = Engine()
        self._say = say
        self._unmade: dict[str, Callable[[], None]] = {
            "runs": lambda: self.engine.view_table("runs", runs_table(self.runs)),
            "dynamics": self._view_dynamics,
            "scores": self._view_scores,
            "features": lambda: self.engine.view_files(
                "features", self._files(layout.FEATURES), schema.features_schema(1)
            ),
            "curricula": lambda: self.engine.view_files("curricula", self._files(layout.CURRICULA), schema.CURRICULUM),
            "samples": lambda: self.engine.view_files("samples", self._sample_files(), schema.SAMPLES),
        }

    def query(self, name: str, **parameters: Value) -> pa.Table:
        """Ask a question of the house, or of a folder of one's own, by its name; runs may be named as in `connect`."""
        query = files.load(name, self.queries)
        return self.sql(query.sql, **query.bind(self._with_ids(parameters)))

    def sql(self, sql: str, **parameters: Value) -> pa.Table:
        """Ask in SQL."""
        return self._answered(lambda: self.engine.ask(sql, parameters))

    def explain(self, name: str, **parameters: Value) -> str:
        """How DuckDB would answer a question, without asking it."""
        query = files.load(name, self.queries)
        bound = query.bind(self._with_ids(parameters))
        return self._answered(lambda: self.engine.explain(query.sql, bound))

    def close(self) -> None:
        """Let go of the files."""
        self.engine.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _answered(self, ask: Callable[[], Answer]) -> Answer:
        """Ask, and make a view when DuckDB says that it is missing: only DuckDB knows which ones a question reads."""
        while True:
            try:
                return ask()
            except UnknownTableError as unknown:
                make = self._unmade.pop(unknown.table, None)
                if make is None:
                    raise
                make()

    def _with_ids(self, parameters: dict[str, Value]) -> dict[str, Value]:
        """Parameters that name a run, as its id: SQL knows runs by nothing else."""
        named = {name for name in parameters if name in RUN_PARAMETERS}
        return {name: pick(str(value), self.runs) if name in named else value for name, value in parameters.items()}

    @cached_property
    def _recorded(self) -> dict[str, Recorded]:
        return {run.run_id: _recorded(run, self._say) for run in self.runs}

    def _view_dynamics(self) -> None:
        paths = [path for one in self._recorded.values() for path in one.all_files()]
        self.engine.view_files("dynamics", paths, schema.DYNAMICS)

    def _view_scores(self) -> None:
        """Scores that a finished run wrote are read; those of others are made from their dynamics now."""
        written = {run.run_id: _written_scores(run) for run in self.runs}
        self.engine.view_files("scores", [path for paths in written.values() for path in paths], schema.SCORES)
        unwritten = [run for run in self.runs if not written[run.run_id]]
        if unwritten:
            made = compute_scores([_recorded(run, self._say) for run in unwritten])
            self.engine.view_also("scores", made)

    def _files(self, folder: str) -> list[Path]:
        return [path for run in self.runs for path in run.files(folder)]

    def _sample_files(self) -> list[Path]:
        """The data sets' own runs, each once; one that was deleted takes only the pictures with it."""
        ids = {run.run.data.tags.get(layout.TAG_DATASET_RUN, "") for run in self.runs} - {""}
        found: list[Path] = []
        for run_id in sorted(ids):
            try:
                found += find_runs([run_id], self.runs[0].client)[0].files(layout.SAMPLES)
            except StoreError:
                self._say(f"the pictures of data set run {run_id[:8]} are gone; numbers are whole.")
        return found


def connect(
    runs: str | Sequence[str] = (), tracking_uri: str | None = None, queries: str | Path | None = None
) -> Session:
    """Open the views over runs: ids, starts of ids, names, an experiment, an MLflow filter; all when none is named.

    `queries` is a folder with .sql files of one's own.

    session = actionflow.connect(["digits-seed-0"])
    session.query("hardest", k=5).to_pandas()
    """
    from mlflow import MlflowClient

    wanted = [runs] if isinstance(runs, str) else list(runs)
    found = find_runs(wanted, MlflowClient(tracking_uri=tracking_uri))
    return Session(found, queries=Path(queries) if queries else None)


def query(
    question: str, runs: str | Sequence[str] = (), tracking_uri: str | None = None, **parameters: Value
) -> pa.Table:
    """Ask a question by the name of its file in queries/, or in SQL, and close everything again.

        actionflow.query("quantile_correlation", run_a="digits-seed-0", run_b="digits-seed-1").to_pandas()
        actionflow.query("select split, avg(action) from scores group by split", runs="digits-seed-0")

    Without `runs`, it opens the runs that the parameters name, else all.
    """
    with connect(runs or runs_named(parameters), tracking_uri) as session:
        is_name = len(question.split()) == 1
        return session.query(question, **parameters) if is_name else session.sql(question, **parameters)


def runs_named(parameters: Mapping[str, Value]) -> list[str]:
    """The runs that a question's parameters name."""
    return [str(value) for name, value in parameters.items() if name in RUN_PARAMETERS]


def compute_scores(recorded: Sequence[Recorded], **parameters: Value) -> pa.Table:
    """Run queries/scores.sql over the epochs of these runs."""
    splits = [one.files[split] for one in recorded for split in one.splits]
    if not splits:
        return schema.SCORES.empty_table()
    return score(splits, schema.DYNAMICS, **parameters).cast(schema.SCORES)


def _written_scores(run: StoredRun) -> list[Path]:
    """The scores of a run, if it has them for every split and whole; else nothing, and they are made anew."""
    paths = run.files(layout.SCORES)
    if {path.stem for path in paths} != set(run.splits()) or not all(parquet.is_whole(path) for path in paths):
        return []
    for path in paths:
        schema.stamp_of(parquet.read_schema(path), str(path))
    return paths


def _recorded(run: StoredRun, say: Callable[[str], None]) -> Recorded:
    recorded = run.recorded()
    for told in recorded.left_out:
        say(f"run {run.run_id[:8]}: {told}, so it is left out.")
    if not recorded.files:
        raise StoreError(
            f"run {run.run_id[:8]} has no per-sample dynamics (found: {run.found()}). Train it with "
            "`mlflow run . -e cifar10`, or record your own loop with actionflow.Recorder."
        )
    if recorded.missing:
        raise StoreError(
            f"run {run.run_id[:8]} lacks {', '.join(recorded.missing)}: its sums would be too small. Restore the files "
            "from a backup, or train it again."
        )
    return recorded
