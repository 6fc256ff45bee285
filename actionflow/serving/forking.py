"""The process that makes processes for questions: it has everything imported, and forks when it is told to.

It runs on its own, apart from the server: nothing of the server's memory, open files or environment can be found in a
process that comes from here, and forking it is safe, for it has a single thread.

    b"F" and a socket       fork a process that answers on it    -> its id
    b"E" and a process id   kill it with all it started          -> how it ended

Ids are not given back to the system before `E`, so they cannot come to mean another process. When the server goes away,
so does this process, and with it all others.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import struct
import sys
from contextlib import suppress

from actionflow.serving.answering import serve_one

NUMBER = struct.Struct(">q")
PR_SET_PDEATHSIG = 1


def main(number: int) -> None:
    """Do what the server says on the socket of this number, until it is gone."""
    control = socket.socket(fileno=number)
    running: set[int] = set()
    try:
        while True:
            # No word beyond the first byte: a fork brings a socket along, an end the number of a process.
            word, sockets, _, _ = socket.recv_fds(control, 1, 1)
            if word == b"F":
                running.add(_fork(control, sockets[0]))
            elif word == b"E":
                control.sendall(NUMBER.pack(_end(NUMBER.unpack(control.recv(NUMBER.size))[0], running)))
            else:
                break
    finally:
        for process in list(running):
            _end(process, running)


def _fork(control: socket.socket, line: int) -> int:
    process = os.fork()
    if process == 0:
        _child(line)
    os.close(line)
    control.sendall(NUMBER.pack(process))
    return process


def _child(line: int) -> None:
    """Keep nothing of the parent but the socket, and never return into its loop."""
    try:
        os.setsid()
        _die_with_parent()
        quiet = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(quiet, standard)
        kept = os.dup2(line, 3) if line != 3 else 3
        os.closerange(4, 1024)
        serve_one(socket.socket(fileno=kept))
    finally:
        os._exit(0)


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _end(process: int, running: set[int]) -> int:
    if process not in running:
        return 0
    running.discard(process)
    with suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    with suppress(ProcessLookupError):  # it may not have had the time to open its own group
        os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    return status


if __name__ == "__main__":
    main(int(sys.argv[1]))
