"""Clusters of loss curves as a person reads them: a block for each, with its centre and the samples closest to it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

Row = dict[str, Any]

GAP, INDENT = "  ", "  "
# More numbers in a line are not read one by one.
MOST_EPOCHS = 12
LONGEST_CLASS = 12
# A text that takes more lines hides the numbers.
MOST_LINES = 2
LENGTHS = {
    "mean_text_words": "words of text",
    "mean_context_words": "words of context",
    "mean_target_words": "words of target",
    "mean_tokens": "target tokens",
}


def curves_text(title: str, clusters: pa.Table, centres: pa.Table, closest: pa.Table, width: int) -> str:
    """A title, then a block for each cluster, from the easiest on."""
    epochs = sorted(set(centres["epoch"].to_pylist()))
    parts = [textwrap.fill(title, width)]
    for cluster in clusters.to_pylist():
        centre = [row["loss"] for row in centres.to_pylist() if row["cluster"] == cluster["cluster"]]
        samples = [row for row in closest.to_pylist() if row["cluster"] == cluster["cluster"]]
        parts.append(_block(cluster, epochs, centre, samples, width))
    return "\n\n".join(parts)


def mean_lengths(cluster: Row) -> str:
    """What is known of the lengths of a cluster's samples.

    >>> mean_lengths({"mean_text_words": 106.16, "mean_target_words": 22.96, "mean_tokens": None})
    'on average 106.2 words of text, 23.0 words of target'
    """
    known = [f"{cluster[key]:,.1f} {unit}" for key, unit in LENGTHS.items() if cluster.get(key) is not None]
    return f"on average {', '.join(known)}" if known else ""


def _block(cluster: Row, epochs: list[int], centre: list[float], samples: Sequence[Row], width: int) -> str:
    shown = _shown(epochs, centre, samples, width)
    heads = [["epoch", *(str(epochs[place]) for place in shown)], ["centre", *(_number(centre[n]) for n in shown)]]
    grid = [*heads, *(line for row in samples for line in _fate(row, shown))]
    lines = iter(_aligned(grid))
    told = [_head(cluster, width), "", next(lines), next(lines)]
    for row in samples:
        told += ["", *_described(row, width), *(next(lines) for _ in _fate(row, shown))]
    return "\n".join(told)


def _head(cluster: Row, width: int) -> str:
    facts = [
        f"{cluster['samples']:,} samples ({100 * cluster['share']:.1f} %)",
        f"mean loss {_number(cluster['mean_loss'])}",
        mean_lengths(cluster),
    ]
    return textwrap.fill(f"{cluster['name']}: {'; '.join(filter(None, facts))}", width, subsequent_indent=INDENT)


def _described(row: Row, width: int) -> list[str]:
    """Which sample it is, its label, and what it says; a picture is known by its key."""
    label = row["label_name"]
    known = [f"sample {row['sample_id']}", f"label {label}" if label is not None else "", _key(row)]
    texts = [("", row["text"]), ("context: ", row["context"]), ("target: ", row["target_text"])]
    return [
        INDENT + ", ".join(filter(None, known)),
        *(line for word, text in texts if text for line in _cut(word + text, width)),
    ]


def _key(row: Row) -> str:
    """The key of a sample without a text, unless it says no more than the id."""
    return f"key {row['key']}" if row["key"] and not row["text"] and row["key"] != str(row["sample_id"]) else ""


def _cut(text: str, width: int) -> list[str]:
    return textwrap.wrap(
        " ".join(text.split()),
        max(width, 20),
        initial_indent=INDENT,
        subsequent_indent=INDENT,
        max_lines=MOST_LINES,
        placeholder=" …",
    )


def _fate(row: Row, shown: Sequence[int]) -> list[list[str]]:
    """The losses of a sample, and the classes it was taken for where there are classes."""
    lines = [["loss", *(_number(row["losses"][place]) for place in shown)]]
    if any(name is not None for name in row["predicted"]):
        lines.append(["predicted", *(_short(row["predicted"][place]) for place in shown)])
    return lines


def _shown(epochs: list[int], centre: list[float], samples: Sequence[Row], width: int) -> list[int]:
    """The places of the epochs that have room, spread evenly from the first to the last."""
    everything = range(len(epochs))
    cells = [_number(loss) for loss in centre]
    cells += [cell for row in samples for line in _fate(row, everything) for cell in line[1:]]
    room = (width - len(INDENT) - len("predicted")) // (max(map(len, cells)) + len(GAP))
    count = max(2, min(room, MOST_EPOCHS))
    if len(epochs) <= count:
        return list(everything)
    return [round(place * (len(epochs) - 1) / (count - 1)) for place in range(count)]


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    columns = list(zip(*rows, strict=True))
    first, others = columns[0], columns[1:]
    # One width for all epochs: the eye runs along them.
    width = max(len(cell) for column in others for cell in column)
    names = max(map(len, first))
    return [
        INDENT + name.ljust(names) + "".join(GAP + cell.rjust(width) for cell in cells)
        for name, *cells in zip(first, *others, strict=True)
    ]


def _number(value: float) -> str:
    return f"{value:.4f}" if abs(value) < 1000 else f"{value:.3g}"


def _short(name: str | None) -> str:
    return "" if name is None else name if len(name) <= LONGEST_CLASS else name[: LONGEST_CLASS - 1] + "…"
