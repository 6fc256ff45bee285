"""Ask questions of recorded runs: opens the views over the runs you name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeVar, overload

import pyarrow as pa

from actionflow.questions import files
from actionflow.questions.engine import Engine, UnknownTableError
from actionflow.questions.files import Value
from actionflow.remote import RemoteSession
from actionflow.sources import VIEWS, OfOneRun, Say, source_of
from actionflow.sources import compute_scores as compute_scores
from actionflow.store.finding import find_runs, pick
from actionflow.store.reading import StoredRun

Answer = TypeVar("Answer")

# Parameters of queries that stand for a run.
RUN_PARAMETERS = ("run_id", "run_a", "run_b")


def say(message: str) -> None:
    """Tell a person something that is not data."""
    print(message, file=sys.stderr)


class Session:
    """DuckDB with views over some runs.

    They are `runs`, `dynamics`, `samples`, `scores`, `features`, `pixels`, `outputs`, `clusters`, `audits`,
    `failure_modes`, `failure_members`, `curricula`, `marks`, `counterexamples`, `scenarios` and `scenario_labels`. A
    view is made when a question first names it: listing a thousand runs opens none of their files.
    """

    def __init__(
        self, runs: Sequence[StoredRun], say: Say = say, queries: Path | None = None, of_one: OfOneRun | None = None
    ) -> None:
        self.runs = list(runs)
        self.queries = queries
        self.engine = Engine()
        self._say = say
        self._of_one = of_one
        self._unmade = set(VIEWS)

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
                if unknown.table not in self._unmade:
                    raise
                self._make(unknown.table)
                self._unmade.remove(unknown.table)

    def _make(self, view: str) -> None:
        source = source_of(view, self.runs, self._say, self._of_one)
        if source.rows is None or source.files:
            self.engine.view_files(view, source.files, VIEWS[view])
            if source.rows is not None:
                self.engine.view_also(view, source.rows)
        else:
            self.engine.view_table(view, source.rows)

    def _with_ids(self, parameters: dict[str, Value]) -> dict[str, Value]:
        """Parameters that name a run, as its id: SQL knows runs by nothing else."""
        named = {name for name in parameters if name in RUN_PARAMETERS}
        return {name: pick(str(value), self.runs) if name in named else value for name, value in parameters.items()}


@overload
def connect(
    runs: str | Sequence[str] = (),
    tracking_uri: str | None = None,
    queries: str | Path | None = None,
    server: None = None,
) -> Session: ...


@overload
def connect(
    runs: str | Sequence[str] = (),
    tracking_uri: str | None = None,
    queries: str | Path | None = None,
    *,
    server: str,
) -> RemoteSession: ...


def connect(
    runs: str | Sequence[str] = (),
    tracking_uri: str | None = None,
    queries: str | Path | None = None,
    server: str | None = None,
) -> Session | RemoteSession:
    """Open the views over runs: ids, starts of ids, names, an experiment, an MLflow filter, `a,b`; all when none is.

    `queries` is a folder with .sql files of one's own. `server` is the address of an `actionflow serve`, which then
    answers instead: nothing is fetched but the answer. Such an address in place of `runs` asks all of its runs.

    session = actionflow.connect(["digits-seed-0"])
    session.query("hardest", k=5).to_pandas()
    actionflow.connect("http://127.0.0.1:5000").sql("select name from runs")
    """
    wanted = [runs] if isinstance(runs, str) else list(runs)
    own = Path(queries) if queries else None
    if server is None and wanted and wanted[0].startswith(("http://", "https://")):
        server, *wanted = wanted
    if server is not None:
        return RemoteSession(server, wanted, own, say)
    from mlflow import MlflowClient

    return Session(find_runs(wanted, MlflowClient(tracking_uri=tracking_uri)), queries=own)


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


def with_texts(session: Session, rows: pa.Table, most: int = 60) -> pa.Table:
    """Rows of samples with how their texts begin as a last column; as they are when no run of them has texts."""
    session.engine.view_table("asked", rows.append_column("place", pa.array(range(rows.num_rows), pa.int64())))
    texts = session.sql(
        """select place, left(max(text), $most) || case when length(max(text)) > $most then '…' else '' end as text
        from asked
        left join runs on asked.run_id = runs.run_id
        left join samples on runs.dataset_digest = samples.digest and asked.sample_id = samples.sample_id
        group by place order by place""",
        most=most,
    )["text"]
    return rows.append_column("text", texts) if texts.null_count < len(texts) else rows


def runs_named(parameters: Mapping[str, Value]) -> list[str]:
    """The runs that a question's parameters name."""
    return [str(value) for name, value in parameters.items() if name in RUN_PARAMETERS]
