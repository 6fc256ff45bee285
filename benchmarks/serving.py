"""How long does a small question take over HTTP while ten people ask, each one question a second?

A real `actionflow serve` over a run of 60,000 samples. Every question is answered in a process of its own, which is
part of what is measured. Beside it stands the same question in a session of one's own.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import psutil
from measuring import MEGABYTE, Target, end, is_quick, seconds, show

SAMPLES = 60_000
USERS = 10
QUESTIONS = {
    "count": "select count(*) from scores",
    "hardest 60": "select sample_id, action from scores where split = 'val' order by action desc limit 60",
    "by class": "select label, avg(action), count(*) from scores group by label order by label",
}


def main() -> None:
    quick = is_quick(__doc__)
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as (server, process):
        run_id = record(server, 2_000 if quick else SAMPLES)
        ask(server, run_id, QUESTIONS["count"])
        time.sleep(2)
        alone = {name: [ask(server, run_id, sql) for _ in range(10)] for name, sql in QUESTIONS.items()}
        before = memory(process)
        took = crowd(server, run_id, 5 if quick else 30)
        grown = memory(process) - before
        own = in_a_session(server, run_id)
    rows = [[name, median(times), max(times), own[name]] for name, times in alone.items()]
    show("One user, ms", ["", "median", "slowest", "own session"], rows)
    p95 = percentile(took, 95)
    show(
        f"{USERS} users, a question a second each, {len(took)} questions",
        ["", "ms"],
        [["median", percentile(took, 50)], ["p95", p95], ["slowest", max(took)], ["MB grown", grown / MEGABYTE]],
    )
    end([Target(f"p95 at {USERS} users, ms", p95, 150), Target("memory grown, MB", grown / MEGABYTE, 50)], quick)


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, psutil.Process]]:
    """`actionflow serve` over an empty store."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", f"{folder}/artifacts"]
    process = subprocess.Popen(
        [sys.executable, "-m", "actionflow.cli", "serve", *options, "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd=folder,
        env=os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"},
    )
    try:
        server = f"http://127.0.0.1:{port}"
        wait_for(f"{server}/health")
        yield server, psutil.Process(process.pid)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(address: str) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(address, timeout=1):
                return
        except OSError:
            time.sleep(0.2)
    raise TimeoutError(address)


def record(server: str, samples: int) -> str:
    """A run of this many samples with ten classes, three epochs long."""
    import mlflow

    import actionflow

    draw = np.random.default_rng(0)
    labels = draw.integers(0, 10, samples)
    mlflow.set_tracking_uri(server)
    with mlflow.start_run() as run, actionflow.Recorder() as recorder:
        for _ in range(3):
            recorder.add(np.arange(samples), draw.normal(0, 1, (samples, 10)).astype(np.float32), labels)
            recorder.end_epoch()
    return str(run.info.run_id)


def ask(server: str, run_id: str, sql: str) -> float:
    """How many milliseconds a question takes, as a caller sees it."""
    content = json.dumps({"sql": sql, "runs": [run_id]}).encode()
    request = urllib.request.Request(
        f"{server}/ajax-api/actionflow/sql", content, {"Content-Type": "application/json", "Accept": "application/json"}
    )

    def send() -> None:
        with urllib.request.urlopen(request, timeout=60) as response:
            response.read()

    return 1000 * seconds(send)


def crowd(server: str, run_id: str, rounds: int) -> list[float]:
    """The times of all questions of some people, who ask at moments of their own."""
    questions = list(QUESTIONS.values())

    def one(user: int) -> list[float]:
        took = []
        started = time.monotonic() + user / USERS
        for number in range(rounds):
            time.sleep(max(0.0, started + number - time.monotonic()))
            took.append(ask(server, run_id, questions[(user + number) % len(questions)]))
        return took

    with ThreadPoolExecutor(USERS) as threads:
        return [each for times in threads.map(one, range(USERS)) for each in times]


def in_a_session(server: str, run_id: str) -> dict[str, float]:
    import actionflow

    with actionflow.connect(run_id, tracking_uri=server) as session:
        session.sql(QUESTIONS["count"])
        times = {name: [seconds(partial(session.sql, sql)) for _ in range(5)] for name, sql in QUESTIONS.items()}
    return {name: 1000 * median(each) for name, each in times.items()}


def memory(process: psutil.Process) -> int:
    """What the server itself holds; processes for questions come and go."""
    held = 0
    for each in [process, *process.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            held += 0 if "forking" in " ".join(each.cmdline()) else each.memory_info().rss
    return held


def percentile(values: list[float], share: int) -> float:
    return float(np.percentile(values, share))


if __name__ == "__main__":
    main()
