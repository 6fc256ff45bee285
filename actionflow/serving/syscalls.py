"""A filter for system calls: what a question's process may still ask of Linux once it has its files.

DuckDB's own locks are the first wall. This is the second, for whoever gets through them: a process that cannot open a
file, make a socket, start a program or signal another, whatever code it runs. Calls that are not listed fail with
EPERM. Numbers are those of the kernel's tables, which never change.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Sequence

# By name: the number on x86_64 and on aarch64 (None where there is none).
ALLOWED: dict[str, tuple[int | None, int | None]] = {
    # The answer leaves through the one socket that is open; memory, threads, clocks.
    "read": (0, 63),
    "write": (1, 64),
    "readv": (19, 65),
    "writev": (20, 66),
    "pread64": (17, 67),
    "sendto": (44, 206),
    "recvfrom": (45, 207),
    "close": (3, 57),
    "fstat": (5, 80),
    "lseek": (8, 62),
    "fcntl": (72, 25),
    "poll": (7, None),
    "ppoll": (271, 73),
    "munmap": (11, 215),
    "brk": (12, 214),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    "restart_syscall": (219, 128),
    "futex": (202, 98),
    "set_robust_list": (273, 99),
    "set_tid_address": (218, 96),
    "rseq": (334, 293),
    "membarrier": (324, 283),
    "sched_yield": (24, 124),
    "sched_getaffinity": (204, 123),
    "getcpu": (309, 168),
    "nanosleep": (35, 101),
    "clock_nanosleep": (230, 115),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "gettimeofday": (96, 169),
    "times": (100, 153),
    "getrusage": (98, 165),
    "getrandom": (318, 278),
    "getpid": (39, 172),
    "gettid": (186, 178),
    "sysinfo": (99, 179),
    "uname": (63, 160),
    "exit": (60, 93),
    "exit_group": (231, 94),
}
# Allowed only with such arguments.
CLONE, CLONE3 = (56, 220), (435, 435)
MMAP, MPROTECT = (9, 222), (10, 226)
PRLIMIT, PRCTL, TGKILL = (302, 261), (157, 167), (234, 131)

ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

# Instructions of the filter's machine, and what it may answer.
LOAD, AND, EQUAL, RETURN = 0x20, 0x54, 0x15, 0x06
ALLOW, FAIL, KILL = 0x7FFF0000, 0x00050000, 0x80000000
EPERM, ENOSYS = 1, 38
CLONE_THREAD, PROT_EXEC, PR_SET_NAME = 0x00010000, 0x4, 15
PR_SET_NO_NEW_PRIVS, SET_MODE_FILTER, ALL_THREADS = 38, 1, 1
SECCOMP = {"x86_64": 317, "aarch64": 277}

Instruction = tuple[int, int, int, int]
# Which half of which argument, what of it counts, and what that must be.
Condition = tuple[int, int, int, int]


class CannotFilterError(OSError):
    """This machine has no filter for system calls."""


def forbid_all_but_computing() -> None:
    """Let every thread of this process, now and later, do nothing but compute and write to what is open."""
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        raise CannotFilterError(f"there is no list of system calls for {machine}")
    code = _program(*ARCHITECTURES[machine])
    libc = ctypes.CDLL(None, use_errno=True)
    _checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    instructions = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *each) for each in code))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(code), ctypes.addressof(instructions)))
    _checked(libc.syscall(SECCOMP[machine], SET_MODE_FILTER, ALL_THREADS, program))


def _checked(result: int) -> None:
    if result != 0:
        reason = os.strerror(ctypes.get_errno())
        raise CannotFilterError(f"Linux does not take a filter of system calls here ({reason})")


def _program(column: int, architecture: int) -> list[Instruction]:
    code: list[Instruction] = [
        (LOAD, 0, 0, 4),
        (EQUAL, 1, 0, architecture),
        (RETURN, 0, 0, KILL),  # another numbering of calls: nobody here uses one
        (LOAD, 0, 0, 0),
    ]
    for numbers in ALLOWED.values():
        number = numbers[column]
        if number is not None:
            code += [(EQUAL, 0, 1, number), (RETURN, 0, 0, ALLOW)]
    code += _only(CLONE[column], [(0, 0, CLONE_THREAD, CLONE_THREAD)])
    code += _only(MMAP[column], [(2, 0, PROT_EXEC, 0)])
    code += _only(MPROTECT[column], [(2, 0, PROT_EXEC, 0)])
    code += _only(PRCTL[column], [(0, 0, 0xFFFFFFFF, PR_SET_NAME)])
    code += _only(TGKILL[column], [(0, 0, 0xFFFFFFFF, os.getpid())])
    # Limits may be looked at: the new ones are NULL.
    code += _only(PRLIMIT[column], [(2, 0, 0xFFFFFFFF, 0), (2, 1, 0xFFFFFFFF, 0)])
    # Its flags lie in memory, which a filter cannot see; told that it does not exist, libc takes clone.
    code += [(EQUAL, 0, 1, CLONE3[column]), (RETURN, 0, 0, FAIL | ENOSYS)]
    return [*code, (RETURN, 0, 0, FAIL | EPERM)]


def _only(number: int, conditions: Sequence[Condition]) -> list[Instruction]:
    """Allow a call if all conditions hold."""
    body: list[Instruction] = []
    for place, (argument, half, mask, value) in enumerate(conditions):
        left = 3 * (len(conditions) - place - 1)
        body += [(LOAD, 0, 0, 16 + 8 * argument + 4 * half), (AND, 0, 0, mask), (EQUAL, 0, left + 1, value)]
    body += [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, FAIL | EPERM)]
    return [(EQUAL, 0, len(body), number), *body]
