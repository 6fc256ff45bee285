"""Query files: one file, one question; the comment at its top is its documentation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from actionflow.errors import QueryError, nearest

Value = str | int | float | bool | None

_TAKES = re.compile(r"^--\s+(?:takes)?\s+\$(?P<name>\w+)\s+(?P<meaning>.+)$")


@dataclass(frozen=True)
class Parameter:
    """A `$name` of a query, what it means, and its default where it has one."""

    name: str
    meaning: str
    default: Value = None
    required: bool = True


@dataclass(frozen=True)
class QueryFile:
    """One question: its SQL, and what its header says of it."""

    name: str
    sql: str
    summary: str
    parameters: tuple[Parameter, ...]

    def bind(self, given: dict[str, Value]) -> dict[str, Value]:
        """All parameters with their values: those given, else the defaults of the header."""
        self.check(given)
        return {p.name: given.get(p.name, p.default) for p in self.parameters}

    def check(self, given: Mapping[str, Value]) -> None:
        """Refuse parameters that the query does not have, and the lack of one that it needs."""
        known = {parameter.name for parameter in self.parameters}
        for name in given:
            if name not in known:
                raise QueryError(f"query {self.name} has no parameter {name}. {nearest(name, known)}")
        lacking = [p.name for p in self.parameters if p.required and p.name not in given]
        if lacking:
            raise QueryError(f"query {self.name} needs {', '.join(lacking)}: give it as -p {lacking[0]}=…")


def house_folder() -> Path:
    """Where the house's query files lie: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "queries"
    return installed if installed.is_dir() else package.parent / "queries"


def load(name: str, own: Path | None = None) -> QueryFile:
    """The query of this name: from a folder of one's own if it has one, else the house's."""
    for folder in _folders(own):
        path = folder / f"{name}.sql"
        if path.is_file():
            return parse(name, path.read_text())
    places = " or ".join(str(folder) for folder in _folders(own))
    raise QueryError(f"there is no query {name} in {places}. {nearest(name, names(own))}")


def names(own: Path | None = None) -> list[str]:
    """The names of all queries, one's own and the house's."""
    return sorted({path.stem for folder in _folders(own) for path in folder.glob("*.sql")})


def _folders(own: Path | None) -> list[Path]:
    if own is None:
        return [house_folder()]
    if not own.is_dir():
        raise QueryError(f"there is no folder {own} with queries: type --queries <folder with .sql files>.")
    return [own, house_folder()]


def parse(name: str, sql: str) -> QueryFile:
    """Read a query's header: the first line is its summary, `takes` lists its parameters."""
    header = [line for line in sql.splitlines() if line.startswith("--")]
    summary = header[0].removeprefix("--").strip() if header else ""
    matches = [match for line in header if (match := _TAKES.match(line))]
    return QueryFile(name, sql, summary, tuple(_parameter(match["name"], match["meaning"]) for match in matches))


def _parameter(name: str, meaning: str) -> Parameter:
    text, semicolon, default = meaning.rpartition("; ")
    if not semicolon:
        return Parameter(name, meaning.strip())
    # "0 counts the whole run" explains the default: its value is the first word.
    return Parameter(name, text.strip(), value_of(default.split()[0]), required=False)


def value_of(text: str) -> Value:
    """The value that a word stands for: a number if it reads as one, else the word."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
