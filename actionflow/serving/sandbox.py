"""Asks strangers' questions where they can do no harm: each in a process of its own that is used once.

Some processes wait ready, with everything imported, so that a small question takes milliseconds. A question that is
answered, wrong, too slow or too greedy ends the same way: its process is killed, and a new one takes its place.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import BoundedSemaphore, Lock, Semaphore
from typing import Any

from actionflow.errors import ActionFlowError, QueryError
from actionflow.serving import channel
from actionflow.serving.answering import Question, too_much_memory
from actionflow.serving.forking import NUMBER
from actionflow.serving.limits import MEGABYTE, Limits

# What a process for questions finds in its environment: nothing of the server's.
ENVIRONMENT = {
    "HOME": "/",
    "LANG": "C.UTF-8",
    "PATH": "/usr/bin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    # Memory is counted: no pools that reserve more than they use, no arena for every thread.
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",  # what forks has a single thread
    "MALLOC_ARENA_MAX": "2",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


class BusyError(ActionFlowError):
    """So many questions are being answered that this one has to come again."""


@dataclass(frozen=True)
class Answer:
    """The encoded rows, how many there are, what they were cut at (rows, bytes or nothing), and how long it took."""

    body: bytes
    rows: int
    cut: str
    opened_ms: float
    asked_ms: float


@dataclass(frozen=True)
class Worker:
    """A process that waits for one question."""

    process: int
    line: socket.socket

    def is_there(self) -> bool:
        """Whether the process still listens: it may have died with the one that forked it."""
        try:
            return bool(self.line.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except BlockingIOError:
            return True
        except OSError:
            return False


class Sandbox:
    """Processes for questions, so many at once and no more."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits.from_environment()
        self._slots = Semaphore(self.limits.at_once)
        self._places = BoundedSemaphore(self.limits.at_once + self.limits.waiting)
        self._spares: deque[Worker] = deque()
        self._control: socket.socket | None = None
        self._forker: subprocess.Popen[bytes] | None = None
        self._talking = Lock()
        self._behind = ThreadPoolExecutor(1, "actionflow-sandbox")
        self._closed = False

    def warm_up(self) -> None:
        """Let the first processes be made, without waiting for them."""
        for _ in range(self.limits.at_once):
            self._behind.submit(self._make_spare)

    def ask(self, question: Question) -> Answer:
        """Answer a question, or say in one line why not."""
        deadline = time.monotonic() + self.limits.patience
        with self._a_place(), self._a_slot(deadline) as worker:
            return self._asked(worker, question)

    def close(self) -> None:
        """End all processes."""
        self._closed = True
        self._behind.shutdown(wait=True, cancel_futures=True)
        self._stop_forker()

    @contextmanager
    def _a_place(self) -> Iterator[None]:
        if not self._places.acquire(blocking=False):
            raise BusyError("too many questions are waiting here: ask again in a few seconds.")
        try:
            yield
        finally:
            self._places.release()

    @contextmanager
    def _a_slot(self, deadline: float) -> Iterator[Worker]:
        """A process for one question; it and the slot are given back behind the scenes, when the process has ended."""
        if not self._slots.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise BusyError(
                f"{self.limits.at_once} other questions are being answered and none ended within "
                f"{self.limits.patience} s: ask again in a few seconds."
            )
        worker = None
        try:
            worker = self._take()
            yield worker
        finally:
            self._behind.submit(self._retire, worker)

    def _take(self) -> Worker:
        with suppress(IndexError):
            while True:
                worker = self._spares.popleft()
                if worker.is_there():
                    return worker
        return self._fork()

    def _asked(self, worker: Worker, question: Question) -> Answer:
        limits = question.limits
        until = time.monotonic() + limits.seconds
        try:
            worker.line.settimeout(limits.seconds)
            channel.send(worker.line, pickle.dumps(question))
            told = channel.receive(worker.line, MEGABYTE, until)
            content = json.loads(told) if told else self._how_it_ended(worker, limits)
            if "error" in content:
                raise QueryError(str(content["error"]))
            body = channel.receive(worker.line, limits.answer_bytes + MEGABYTE, until)
        except TimeoutError as error:
            raise QueryError(f"the question took longer than {limits.seconds} s: ask for less at once.") from error
        except (OSError, ValueError) as error:
            raise QueryError(self._how_it_ended(worker, limits)["error"]) from error
        return Answer(body, int(content["rows"]), str(content["cut"]), content["opened_ms"], content["asked_ms"])

    def _how_it_ended(self, worker: Worker, limits: Limits) -> dict[str, Any]:
        status = self._end(worker)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
            return {"error": f"the question took longer than {limits.seconds} s: ask for less at once."}
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGSEGV:
            return {"error": "the question broke the engine: it is nested too deeply, or asks for what is not there."}
        return {"error": too_much_memory(limits)}

    def _retire(self, worker: Worker | None) -> None:
        try:
            if worker is not None:
                self._end(worker)
                worker.line.close()
            if not self._closed:
                self._make_spare()
        finally:
            self._slots.release()

    def _make_spare(self) -> None:
        if len(self._spares) < self.limits.at_once:
            self._spares.append(self._fork())

    def _fork(self) -> Worker:
        ours, theirs = socket.socketpair()
        with theirs, self._talking:
            for attempt in (1, 2):
                try:
                    control = self._running_forker()
                    socket.send_fds(control, [b"F"], [theirs.fileno()])
                    return Worker(_number(control), ours)
                except OSError:
                    self._stop_forker()
                    if attempt == 2:
                        raise
        raise AssertionError("a second attempt either succeeds or raises")

    def _end(self, worker: Worker) -> int:
        """Kill the process and all it started; return how it ended, 0 if it was ended before."""
        with self._talking:
            try:
                control = self._running_forker()
                control.sendall(b"E")
                control.sendall(NUMBER.pack(worker.process))
                return _number(control)
            except OSError:
                # The process that forks is gone, and with it all that it forked.
                self._stop_forker()
                return 0

    def _running_forker(self) -> socket.socket:
        if self._control is None:
            self._control, theirs = socket.socketpair()
            with theirs:
                self._forker = subprocess.Popen(
                    [sys.executable, "-m", "actionflow.serving.forking", str(theirs.fileno())],
                    env=ENVIRONMENT | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                    cwd="/",
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
        return self._control

    def _stop_forker(self) -> None:
        """Closing the line is the word: the process ends all others and then itself."""
        self._spares.clear()
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._forker is not None:
            try:
                self._forker.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self._forker.kill()
                self._forker.wait()
            self._forker = None


def _number(control: socket.socket) -> int:
    told = control.recv(NUMBER.size)
    if len(told) < NUMBER.size:
        raise ConnectionResetError("the process that forks is gone")
    number: int = NUMBER.unpack(told)[0]
    return number
