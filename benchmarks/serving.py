"""How long do people wait for a question over HTTP, and for a page of the wall, while others look too?

A real `actionflow serve` over a run of 60,000 samples with pictures. Ten people ask a question a second each, every one
answered in a process of its own; ten turn a page of 60 samples a second each; and twenty do both, and fetch the
pictures, for a minute, every four seconds. Times are a caller's, so waiting in line counts.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import psutil
import pyarrow as pa
from measuring import MEGABYTE, Target, end, is_quick, seconds, show

SAMPLES = 60_000
USERS, CROWD = 10, 20
QUESTIONS = {
    "count": "select count(*) from scores",
    "hardest 60": "select sample_id, action from scores where split = 'val' order by action desc limit 60",
    "by class": "select label, avg(action), count(*) from scores group by label order by label",
}
SORTS = ("action", "entropy", "aum")
PICTURE = re.compile(rb'src="([^"]+/pictures/[^"]+)"')
# A browser has so many at once of the same server.
PICTURES_AT_ONCE = 6


def main() -> None:
    quick = is_quick(__doc__)
    rounds = 5 if quick else 30
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as (server, process):
        run_id = record(server, 2_000 if quick else SAMPLES)
        ask(server, run_id, QUESTIONS["count"])
        time.sleep(2)
        alone = {name: [ask(server, run_id, sql) for _ in range(10)] for name, sql in QUESTIONS.items()}
        first = turn(server, run_id, "action", 1)
        turned = [turn(server, run_id, "action", page) for page in range(2, 12)]
        asked = crowd(USERS, rounds, partial(ask_in_turn, server, run_id))
        pages = crowd(USERS, rounds, partial(turn_at_random, server, run_id, 5 if quick else SAMPLES // 60))
        before = memory(process)
        held, mixed = [], []
        look = partial(look_around, server, run_id, 5 if quick else SAMPLES // 60)
        for _ in range(3):
            mixed += crowd(CROWD, 2 if quick else 5, look, 4)
            held.append(memory(process))
        own = in_a_session(server, run_id)
    rows = [[name, median(times), max(times), own[name]] for name, times in alone.items()]
    show(
        "One user, ms",
        ["", "median", "slowest", "own session"],
        [*rows, ["first page of a wall", first, first, ""], ["next pages", median(turned), max(turned), ""]],
    )
    show(
        f"{USERS} users, once a second each, ms; {CROWD} users for a minute, ms",
        ["", "times", "median", "p95", "slowest"],
        [
            [name, len(took), percentile(took, 50), percentile(took, 95), max(took)]
            for name, took in (("questions", asked), ("pages of 60", pages), (f"all of it, {CROWD} users", mixed))
        ],
    )
    show(
        "Memory of the server, MB", ["before", "20 s", "40 s", "60 s"], [[each / MEGABYTE for each in (before, *held)]]
    )
    end(
        [
            Target(f"a question at {USERS} users, p95, ms", percentile(asked, 95), 150),
            Target(f"a page of 60 at {USERS} users, p95, ms", percentile(pages, 95), 150),
            Target("memory grown in the last 40 s, MB", (held[-1] - held[0]) / MEGABYTE, 50),
        ],
        quick,
    )


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
    """A run of this many samples with pictures and ten classes, three epochs long."""
    import mlflow

    import actionflow
    from actionflow.store.datasets import dataset_run

    draw = np.random.default_rng(0)
    labels = draw.integers(0, 10, samples)
    mlflow.set_tracking_uri(server)
    dataset = dataset_run(mlflow.MlflowClient(), "0", "made", "made", lambda: {"test": pictured(labels, draw)})
    tags = {"actionflow.dataset": "made", "actionflow.dataset_digest": "made", "actionflow.dataset_run": dataset}
    with mlflow.start_run(tags=tags) as run, actionflow.Recorder() as recorder:
        for _ in range(3):
            recorder.add(np.arange(samples), draw.normal(0, 1, (samples, 10)).astype(np.float32), labels)
            recorder.end_epoch()
    return str(run.info.run_id)


def pictured(labels: np.ndarray, draw: np.random.Generator) -> pa.Table:
    """The samples with pictures of the size of Fashion-MNIST's, as noisy as they are small."""
    from actionflow.store.datasets import samples_table
    from actionflow.training.data.png import png_images

    pictures = draw.integers(0, 255, (len(labels), 1, 28, 28), dtype=np.uint8)
    columns = {
        "sample_id": pa.array(np.arange(len(labels))),
        "label": pa.array(labels),
        "label_name": pa.array([f"class {label}" for label in labels]),
        "image": pa.array(png_images(pictures)),
    }
    return samples_table("made", "made", "test", columns, {})


def ask(server: str, run_id: str, sql: str) -> float:
    """How many milliseconds a question takes, as a caller sees it."""
    content = json.dumps({"sql": sql, "runs": [run_id]}).encode()
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    return fetch(urllib.request.Request(f"{server}/ajax-api/actionflow/sql", content, headers))[0]


def ask_in_turn(server: str, run_id: str, user: int, number: int) -> list[float]:
    """One of the questions, each user in an order of their own."""
    return [ask(server, run_id, list(QUESTIONS.values())[(user + number) % len(QUESTIONS)])]


def turn(server: str, run_id: str, sort: str, page: int) -> float:
    """How long a page of the wall takes, without its pictures."""
    return fetch(f"{server}/actionflow/runs/{run_id}?sort={sort}&page={page}")[0]


def turn_at_random(server: str, run_id: str, pages: int, user: int, number: int) -> list[float]:
    """A page somewhere in a wall by some score: nobody else has just had it."""
    draw = np.random.default_rng([user, number])
    return [turn(server, run_id, SORTS[user % len(SORTS)], int(draw.integers(1, pages)))]


def look_around(server: str, run_id: str, pages: int, user: int, number: int) -> list[float]:
    """Four in five people turn pages and wait for the pictures, one asks a question."""
    if user % 5 == 0:
        return ask_in_turn(server, run_id, user, number)
    draw = np.random.default_rng([user, number])
    page = f"{server}/actionflow/runs/{run_id}?sort={SORTS[user % len(SORTS)]}&page={draw.integers(1, pages)}"
    took, content = fetch(page)
    with ThreadPoolExecutor(PICTURES_AT_ONCE) as threads:
        list(threads.map(fetch, [server + found.decode() for found in PICTURE.findall(content)]))
    return [took]


def fetch(request: urllib.request.Request | str) -> tuple[float, bytes]:
    """The milliseconds until an answer was there, and the answer; an error ends the benchmark."""
    started = time.perf_counter()
    with urllib.request.urlopen(request, timeout=60) as response:
        content = response.read()
    return 1000 * (time.perf_counter() - started), content


def crowd(users: int, rounds: int, act: Callable[[int, int], list[float]], pause: float = 1) -> list[float]:
    """The times of all that some people do, once in so many seconds each, at moments of their own."""

    def one(user: int) -> list[float]:
        took = []
        started = time.monotonic() + pause * user / users
        for number in range(rounds):
            time.sleep(max(0.0, started + pause * number - time.monotonic()))
            took += act(user, number)
        return took

    with ThreadPoolExecutor(users) as threads:
        return [each for times in threads.map(one, range(users)) for each in times]


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
