"""Ask the team's server: it has the files, so nothing is fetched but the answer."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import requests

from actionflow import errors
from actionflow.errors import ActionFlowError, StoreError
from actionflow.questions import files
from actionflow.questions.files import Value

API = "/ajax-api/actionflow"
ARROW = "application/vnd.apache.arrow.stream"
# A question may take as long as the server lets it; one that is busy is asked again after these pauses.
SECONDS, BUSY, PAUSES = 600, 503, (1, 3)


class RemoteSession:
    """The questions of a `Session`, answered by a server of `actionflow serve`.

    Names and passwords are those of MLflow's own clients, such as MLFLOW_TRACKING_USERNAME.
    """

    def __init__(
        self,
        server: str,
        runs: Sequence[str] = (),
        queries: Path | None = None,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.server = server.rstrip("/")
        self.runs = list(runs)
        self.queries = queries
        self._say = say or (lambda message: print(message, file=sys.stderr))
        self._web = _logged_in()

    def query(self, name: str, **parameters: Value) -> pa.Table:
        """Ask a question of the house, or of a folder of one's own, by its name."""
        if self.queries is not None and (self.queries / f"{name}.sql").is_file():
            query = files.load(name, self.queries)
            return self.sql(query.sql, **query.bind(parameters))
        return self._asked(f"query/{name}", {"runs": self.runs, "parameters": parameters})

    def sql(self, sql: str, **parameters: Value) -> pa.Table:
        """Ask in SQL."""
        return self._asked("sql", {"sql": sql, "runs": self.runs, "parameters": parameters})

    def explain(self, name: str, **parameters: Value) -> str:
        """How DuckDB would answer a question, without asking it."""
        query = files.load(name, self.queries)
        return str(self.sql(f"explain {query.sql}", **query.bind(parameters))["explain_value"][0].as_py())

    def close(self) -> None:
        """Let go of the connection."""
        self._web.close()

    def __enter__(self) -> RemoteSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _asked(self, path: str, question: dict[str, Any]) -> pa.Table:
        response = self._sent(f"{API}/{path}", question)
        if response.status_code != 200:
            raise self._told(response)
        cut = response.headers.get("X-ActionFlow-Truncated")
        if cut:
            rows = int(response.headers.get("X-ActionFlow-Rows", 0))
            self._say(f"{self.server} cut the answer after {rows:,} rows (too many {cut}): ask for less at once.")
        with pa.ipc.open_stream(response.content) as stream:
            return stream.read_all()

    def _sent(self, path: str, question: dict[str, Any]) -> requests.Response:
        for pause in (*PAUSES, None):
            try:
                response = self._web.post(self.server + path, json=question, timeout=SECONDS)
            except requests.RequestException as error:
                raise StoreError(f"{self.server} does not answer: {str(error)[:200]}") from error
            if response.status_code != BUSY or pause is None:
                return response
            time.sleep(pause)
        raise AssertionError("the last round returns or raises")

    def _told(self, response: requests.Response) -> ActionFlowError:
        """The error that the server raised, raised here."""
        try:
            content = response.json()
            kind = getattr(errors, content["kind"], ActionFlowError)
            return kind(content["error"])
        except (ValueError, KeyError, TypeError):
            return StoreError(
                f"{self.server} answers {response.status_code}, not as ActionFlow does: is it a server of "
                "`actionflow serve`?"
            )


def _logged_in() -> requests.Session:
    """Who we are is found where MLflow's own clients look; MLflow itself takes a second to import, so it is not."""
    web = requests.Session()
    web.headers["Accept"] = ARROW
    name, password = (os.environ.get(f"MLFLOW_TRACKING_{each}") for each in ("USERNAME", "PASSWORD"))
    token = os.environ.get("MLFLOW_TRACKING_TOKEN")
    if name and password:
        web.auth = (name, password)
    elif token:
        web.headers["Authorization"] = f"Bearer {token}"
    if os.environ.get("MLFLOW_TRACKING_INSECURE_TLS", "").lower() in ("true", "1"):
        web.verify = False
    else:
        web.verify = os.environ.get("MLFLOW_TRACKING_SERVER_CERT_PATH") or True
    return web
