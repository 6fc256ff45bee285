"""Run the commands that README.md shows and paste what they print, so that it cannot drift.

    make readme
    python tools/readme_output.py demo digits-seed-0    only the blocks whose command has one of these words

A block to fill is a comment with the command, and the code block after it:

    <!-- run: actionflow runs -->
    ```
    …
    ```

The commands run in the README's order, in a shell with .venv; only stdout is pasted.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"<!-- run: (?P<command>[^\n]+) -->\n```\n.*?```\n", re.DOTALL)


def filled(block: re.Match[str]) -> str:
    """The block with what its command prints now."""
    command = block["command"]
    if not any(word in command for word in sys.argv[1:] or [command]):
        return block[0]
    print(f"$ {command}", file=sys.stderr)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "120"}
    done = subprocess.run(
        ["bash", "-c", command], cwd=PROJECT, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    lines = "\n".join(line.rstrip() for line in done.stdout.strip("\n").splitlines())
    # As a person types it: a terminal gets a table without asking, and make is not told to be silent.
    typed = command.replace(" --format table", "").replace("make -s", "make")
    return f"<!-- run: {command} -->\n```\n$ {typed}\n{lines}\n```\n"


if __name__ == "__main__":
    readme = PROJECT / "README.md"
    readme.write_text(BLOCK.sub(filled, readme.read_text()))
