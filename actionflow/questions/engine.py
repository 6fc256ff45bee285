"""DuckDB with views over Parquet files and Arrow tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import duckdb
import pyarrow as pa

from actionflow.errors import QueryError
from actionflow.questions.files import QueryFile, Value

_MISSING = re.compile(r"Table with name (?P<name>\w+) does not exist")


class UnknownTableError(QueryError):
    """A question reads a table that is not there."""

    def __init__(self, message: str, table: str) -> None:
        super().__init__(message)
        self.table = table


class Engine:
    """One DuckDB connection; views come from files or tables, answers are Arrow tables."""

    def __init__(self, threads: int | None = None) -> None:
        self.connection = duckdb.connect(config={"threads": threads} if threads else {})
        # DuckDB draws it on standard output, which is for data.
        self.connection.execute("set enable_progress_bar = false")

    def view_files(self, name: str, paths: Iterable[Path], empty: pa.Schema, where: str = "") -> None:
        """Make a view over (some rows of) Parquet files; with none, an empty view of the schema `empty`."""
        listed = ", ".join(f"'{_quoted(path)}'" for path in paths)
        if not listed:
            self.view_table(name, empty.empty_table())
            return
        # By name: without it, columns that the first file lacks would vanish silently.
        files = f"read_parquet([{listed}], union_by_name = true)"
        try:
            self.connection.execute(
                f"create or replace view {name} as select * from {files}" + (f" where {where}" if where else "")
            )
        except duckdb.Error as error:
            # The first line names the file; the rest marks our own SQL, which nobody typed.
            raise QueryError(f"{str(error).splitlines()[0]}: restore the file, or train the run again.") from error
        there = {str(column).lower() for column in self.connection.view(name).columns}
        if any(field.name.lower() not in there for field in empty):
            # Files of another task, or of an older version: what they lack is NULL and not an error.
            self.view_also(name, empty.empty_table())

    def fix_names(self, name: str, names: Mapping[str, str]) -> None:
        """Tell a view that these columns say the same in every row.

        As an enum of one value they cost nothing in a GROUP BY; as texts they are hashed and compared row by row.
        """
        for column, value in names.items():
            self.connection.execute(f"create type {column}_name as enum ('{_quoted(value)}')")
        fixed = ", ".join(f"'{_quoted(value)}'::{column}_name as {column}" for column, value in names.items())
        self.connection.execute(f"alter view {name} rename to {name}_in_files")
        self.connection.execute(f"create view {name} as select * replace ({fixed}) from {name}_in_files")

    def view_table(self, name: str, table: pa.Table) -> None:
        """Make a view over an Arrow table."""
        self.connection.register(name, table)

    def view_also(self, name: str, table: pa.Table) -> None:
        """Let a view show the rows of an Arrow table too."""
        self.connection.execute(f"alter view {name} rename to {name}_in_files")
        self.connection.register(f"{name}_in_memory", table)
        self.connection.execute(
            f"create view {name} as select * from {name}_in_files union all by name select * from {name}_in_memory"
        )

    def view_without(self, name: str, table: pa.Table) -> None:
        """Let a view leave out the samples of an Arrow table."""
        self.connection.execute(f"alter view {name} rename to {name}_with_all")
        self.connection.register(f"{name}_left_out", table)
        self.connection.execute(
            f"create view {name} as select * from {name}_with_all "
            f"where sample_id not in (select sample_id from {name}_left_out)"
        )

    def ask(self, sql: str, parameters: Mapping[str, Value] | None = None) -> pa.Table:
        """Run one statement and return its rows."""
        try:
            return self.connection.sql(sql, params=dict(parameters) if parameters else None).to_arrow_table()
        except (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException) as error:
            marked = self._marked(sql, parameters) or error
            missing = _MISSING.search(str(marked))
            if missing:
                raise UnknownTableError(_told(marked), missing["name"].lower()) from error
            raise QueryError(_told(marked)) from error
        except duckdb.Error as error:
            raise QueryError(_told(error)) from error

    def read(self, sql: str, parameters: Mapping[str, Value] | None = None) -> pa.RecordBatchReader:
        """Run one statement and hand its rows out in batches: whoever reads may stop before the end."""
        try:
            return self.connection.sql(sql, params=dict(parameters) if parameters else None).to_arrow_reader()
        except (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException) as error:
            raise QueryError(_told(self._marked(sql, parameters) or error)) from error
        except duckdb.Error as error:
            raise QueryError(_told(error)) from error

    def lock(self, memory: str) -> None:
        """Let a stranger ask: no file, no network, no Python variable, and no way to change that back.

        Views must be there before, over Arrow tables and data sets: files are out of reach afterwards.
        """
        for setting in (
            f"memory_limit = '{memory}'",
            "temp_directory = ''",
            "python_enable_replacements = false",
            "enable_external_access = false",
            "lock_configuration = true",
        ):
            self.connection.execute(f"set {setting}")

    def _marked(self, sql: str, parameters: Mapping[str, Value] | None) -> duckdb.Error | None:
        """The same mistake with its line marked: `execute` does that, but copies its rows once more than `sql`."""
        try:
            self.connection.execute(sql, dict(parameters) if parameters else None)
        except duckdb.Error as error:
            return error
        return None

    def explain(self, sql: str, parameters: Mapping[str, Value] | None = None) -> str:
        """How DuckDB would answer: the plan as text."""
        plan = self.ask(f"explain {sql}", parameters)
        return str(plan["explain_value"][0].as_py())

    def ask_file(self, query: QueryFile, **given: Value) -> pa.Table:
        """Run a query file with these parameters, its header's defaults for the rest."""
        return self.ask(query.sql, query.bind(given))

    def close(self) -> None:
        """Let go of the files."""
        self.connection.close()


def _quoted(text: Path | str) -> str:
    return str(text).replace("'", "''")


def _told(error: duckdb.Error) -> str:
    """DuckDB's own words, with the line of the question that it marks."""
    return "\n".join(line.rstrip() for line in str(error).splitlines() if line.strip())
