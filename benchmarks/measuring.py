"""What the benchmarks share: times, memory, plain tables, and whether a target is met."""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MEGABYTE = 1_000_000
GIGABYTE = 1_000_000_000


@dataclass(frozen=True)
class Target:
    """A figure that was measured, and what it may come to."""

    what: str
    figure: float
    limit: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        return self.figure >= self.limit if self.at_least else self.figure <= self.limit

    def __str__(self) -> str:
        bound = "at least" if self.at_least else "at most"
        return f"{'met' if self.met else 'MISSED'}: {self.what} {self.figure:.3g}, {bound} {self.limit:g}"


def is_quick(question: str | None) -> bool:
    """Read the command line: `--quick` takes small sizes, to see that everything runs."""
    parser = argparse.ArgumentParser(description=question)
    parser.add_argument("--quick", action="store_true", help="small sizes, seconds; its figures mean nothing")
    return bool(parser.parse_args().quick)


def seconds(work: Callable[[], Any]) -> float:
    """How long `work` takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def show(title: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a plain table."""
    lines = [list(head), *([_text(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    print(f"\n{title}\n")
    for line in lines:
        first, *others = (cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        print("  " + "  ".join([first.strip().ljust(widths[0]), *others]))
    print()


def end(targets: Sequence[Target], quick: bool) -> None:
    """Say what was met, and leave with 1 where something was missed; small sizes prove nothing and never fail."""
    for target in targets:
        print(target)
    if quick:
        print("(--quick: small sizes, the figures mean nothing)")
    sys.exit(0 if quick or all(target.met for target in targets) else 1)


def in_own_process(work: Callable[..., Any], *arguments: Any) -> Any:
    """Run `work` where no other memory is counted, and no thread pool or cache is warm."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=_spare_the_machine) as process:
        return process.submit(work, *arguments).result()


def _spare_the_machine() -> None:
    """Fail beyond half of the memory: a group-by that takes all of it takes other people's processes down too."""
    half = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    resource.setrlimit(resource.RLIMIT_DATA, (half, half))


def memory_now() -> int:
    """Bytes of memory that this process holds."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def forget_peak() -> None:
    """Let `peak_memory` begin anew from what is held now."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_memory() -> int:
    """The most bytes this process held since `forget_peak`, or since it began."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _text(cell: object) -> str:
    return f"{cell:,.3f}" if isinstance(cell, float) else f"{cell:,}" if isinstance(cell, int) else str(cell)
