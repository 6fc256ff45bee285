"""The note on a run, in Markdown: what it is, its classes, its histogram, and what to type next.

A note that a person wrote or changed is theirs. Ours ends with a mark that holds a digest of what stands above it:
only a note that still fits its mark is renewed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

from mlflow import MlflowClient
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NOTE

from actionflow.reporting.findings import Findings

# MLflow keeps 8,000 characters of a tag.
MOST_CLASSES, LONGEST_NAME = 25, 40
# Where `actionflow serve` has the page of a run, seen from MLflow's own pages.
PAGE = "actionflow/runs/{run_id}"
MARK = re.compile(r"\n<!-- actionflow report (?P<digest>[0-9a-f]{16}) -->\s*$")
# What Markdown, or HTML inside of it, would read as its own.
SPECIAL = re.compile(r"[\\`*_{}\[\]()#+!|<>~$&:/\"'-]")


def write_note(client: MlflowClient, run_id: str, text: str) -> bool:
    """Put the note on the run, unless it has one that is not ours; say whether it was put there."""
    there = client.get_run(run_id).data.tags.get(MLFLOW_RUN_NOTE, "")
    if there.strip() and not is_ours(there):
        return False
    client.set_tag(run_id, MLFLOW_RUN_NOTE, marked(text))
    return True


def is_ours(note: str) -> bool:
    """Whether a note is as a report left it.

    >>> is_ours(marked("A note.")), is_ours(marked("A note.").replace("A", "My")), is_ours("A note.")
    (True, False, False)
    """
    mark = MARK.search(note)
    return mark is not None and mark["digest"] == _digest(note[: mark.start()])


def marked(text: str) -> str:
    """A note with the mark that says it is ours."""
    return f"{text.rstrip()}\n<!-- actionflow report {_digest(text.rstrip())} -->"


def note(run_id: str, about: str, split: str, found: Findings) -> str:
    """What the note says."""
    short = run_id[:8]
    parts = [
        about,
        class_table(found),
        # Relative: MLflow's pages are all at one address, which need not be the server's root.
        f"![How action is spread over the samples](get-artifact?path=action_histogram.png&run_uuid={run_id})",
        _alike(found),
        f"`action_report.html` among the artifacts shows every sample. Where `actionflow serve` is the server, "
        f"[its pages]({PAGE.format(run_id=run_id)}) show them with their curves, to be filtered and marked. To go on:",
        "\n".join(
            f"    {command}"
            for command in (
                f"actionflow hardest {short} --split {split} -k 20",
                f"actionflow query neighbours --run {short} -p split={split}",
                f"actionflow curves {short} --split {split}",
                f"actionflow compare {short} ANOTHER_RUN --split {split} --log",
                f"actionflow curriculum {short}",
                f"actionflow report {short}",
            )
        ),
        "*Written by `actionflow report`, which renews it until somebody edits it.*",
    ]
    return "\n\n".join(part for part in parts if part)


def class_table(found: Findings) -> str:
    """The classes as a Markdown table, hardest first; nothing where there are none."""
    rows = found.class_rows[:MOST_CLASSES]
    if not rows:
        return ""
    accuracy = {"accuracy": "accuracy"} if found.judged else {}
    columns = {**accuracy, "mean_action": "mean action", "action_p50": "median action"}
    lines = [_line(["class", "samples", *columns.values()]), "|---|" + "--:|" * (len(columns) + 1)]
    lines += [_line([escaped(found.called(row["label"])), *_figures(row, columns)]) for row in rows]
    left = len(found.class_rows) - len(rows)
    return "\n".join(lines) + (f"\n\n… and {left:,} easier classes." if left else "")


def _alike(found: Findings) -> str:
    if not found.neighbours.table.num_rows:
        return ""
    pictures = " `neighbours.png` shows them." if found.pictures else ""
    return f"`neighbours.json` has the hardest samples, each with those that the model finds most alike.{pictures}"


def escaped(name: str) -> str:
    """A name that Markdown shows as it is.

    >>> escaped("a|b <script>")
    'a&#124;b &#60;script&#62;'
    """
    name = " ".join(name.split())
    name = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
    return SPECIAL.sub(lambda found: f"&#{ord(found[0])};", name)


def _figures(row: dict[str, Any], columns: Iterable[str]) -> list[str]:
    return [f"{row['samples']:,}", *(_number(row[name]) for name in columns)]


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()
