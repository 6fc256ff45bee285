"""Runs every benchmark, each in a process of its own: python -m benchmarks [--quick]."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

NAMES = (
    *("recording_overhead", "epoch_file", "scores_query", "bf16", "opening", "asking", "curves", "serving"),
    *("report", "huggingface", "gradients", "autoencoder", "failure_modes", "defuse"),
)


def main() -> None:
    failed = [name for name in NAMES if not _succeeds(name)]
    # Small sizes prove nothing but that everything runs.
    done = "ran" if "--quick" in sys.argv else "met their targets"
    print(f"\n{len(NAMES) - len(failed)} of {len(NAMES)} benchmarks {done}")
    if failed:
        sys.exit(f"the others: {', '.join(failed)}")


def _succeeds(name: str) -> bool:
    print(f"\n== {name}", flush=True)
    path = Path(__file__).with_name(f"{name}.py")
    return subprocess.run([sys.executable, path, *sys.argv[1:]], check=False).returncode == 0


if __name__ == "__main__":
    main()
