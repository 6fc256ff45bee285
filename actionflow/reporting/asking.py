"""Questions that a report asks, kept with how they were asked: the page shows the SQL behind every figure."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from actionflow.present.pages.page import Question
from actionflow.questions import files
from actionflow.questions.files import Value
from actionflow.session import RUN_PARAMETERS, Session


@dataclass(frozen=True)
class Answer:
    """The rows of a query file, and the values of its parameters."""

    name: str
    parameters: dict[str, Value]
    table: pa.Table
    run_id: str

    def rows(self) -> list[dict[str, Any]]:
        """The rows one by one, for few of them."""
        rows: list[dict[str, Any]] = self.table.to_pylist()
        return rows

    def question(self) -> Question:
        """The query's text, and the command that asks it again."""
        query = files.load(self.name)
        named = any(name in RUN_PARAMETERS for name in self.parameters)
        given = [f"-p {name}={shlex.quote(str(value))}" for name, value in self.parameters.items()]
        words = ["actionflow query", self.name, *([] if named else [f"--run {self.run_id[:8]}"]), *given]
        return Question(self.name, query.summary, query.sql.strip(), query.bind(self.parameters), " ".join(words))


def ask(session: Session, run_id: str, name: str, **parameters: Value) -> Answer:
    """Ask a query file of a session that has this run open."""
    return Answer(name, parameters, session.query(name, **parameters), run_id)
