"""Being told to end, by Ctrl-C or by a scheduler, never in the middle of a database transaction.

An interrupt there leaves the transaction open for as long as anybody knows its frames. A database file has one writer
at a time, so the mark that the run was ended would wait for ourselves, and be given up.
"""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

# Whose frames are on the stack while MLflow talks to a database of this machine; a server's answer is not waited for.
DATABASE = ("sqlalchemy", "mlflow.store.db", "mlflow.store.tracking")
AGAIN = 0.01  # seconds until an interrupt that came at the wrong moment is tried once more


@contextmanager
def ended_by_signal() -> Iterator[None]:
    """Let SIGTERM, which a scheduler sends that takes the machine back, end what runs here as Ctrl-C does."""
    with _heard_by(_interrupt):
        yield


@contextmanager
def undisturbed() -> Iterator[None]:
    """Hear no second interrupt: below `mlflow run` the terminal sends one, and MLflow another."""
    with _heard_by(signal.SIG_IGN):
        yield


@contextmanager
def _heard_by(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> Iterator[None]:
    """Hand both signals to a handler, and then to those that they had before; only the main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _interrupt(number: int, frame: FrameType | None) -> None:
    if not _in_transaction(frame):
        raise KeyboardInterrupt
    later = threading.Timer(AGAIN, _thread.interrupt_main, [number])
    later.daemon = True
    later.start()


def _in_transaction(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(DATABASE):
            return True
        frame = frame.f_back
    return False
