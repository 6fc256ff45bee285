"""Takes from a process everything that a question does not need. There is no way back: the process answers and ends."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

from actionflow.serving import syscalls
from actionflow.serving.limits import MEGABYTE, Limits

# Threads reserve room for their stacks and heaps that they never fill.
ROOM_FOR_THREADS = 1024 * MEGABYTE


def confine(limits: Limits) -> None:
    """Leave this process its memory, its open socket and the processor, each up to a limit."""
    size, data = _memory()
    budget = limits.megabytes * MEGABYTE
    _limit(resource.RLIMIT_DATA, data + budget)
    _limit(resource.RLIMIT_AS, size + budget + ROOM_FOR_THREADS)
    _limit(resource.RLIMIT_CPU, (limits.seconds + 1) * limits.threads)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_NOFILE, 0)  # what is open stays open
    if sys.platform == "linux":
        # Here RLIMIT_NPROC would count the user's threads everywhere, and this process needs some: the filter tells
        # threads from processes.
        syscalls.forbid_all_but_computing()
    else:
        _limit(resource.RLIMIT_NPROC, 0)


def _limit(which: int, most: int) -> None:
    _, hard = resource.getrlimit(which)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(which, (most, most))


def _memory() -> tuple[int, int]:
    """The bytes of address space and of data that this process has now."""
    try:
        pages = Path("/proc/self/statm").read_text().split()
    except OSError:
        return 0, 0
    page = os.sysconf("SC_PAGE_SIZE")
    return int(pages[0]) * page, int(pages[5]) * page
