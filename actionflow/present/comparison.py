"""A comparison of runs as a person reads it in a terminal: runs have letters, pairs are rows, classes are columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

Row = dict[str, Any]
Cell = Callable[[Row], str]

# Beyond that nobody reads a table from left to right; csv has them all.
MOST_CLASSES = 20
GAP = "  "


def comparison_text(runs: Sequence[tuple[str, str, str]], agreement: pa.Table, curve: pa.Table, width: int) -> str:
    """Who is compared, Pearson and Spearman by class with their intervals, the samples, then the curve."""
    letters = {run_id: letter(place) for place, (run_id, _, _) in enumerate(runs)}
    pairs = _by_pair(agreement, letters)
    split = curve["split"][0].as_py()
    told = "; baseline: the same model twice" if any(row["baseline"] for rows in pairs.values() for row in rows) else ""
    head = f"Pearson correlation of action, {split} samples (below: 95 % interval{told})"
    parts = [
        _legend(runs, letters),
        _headed(head, _measured(pairs, "pearson"), width),
        _headed("Spearman", _measured(pairs, "spearman"), width),
        _headed("Samples", _counted(pairs), width),
        _headed(_what_the_curve_shows(curve), _curve(_by_pair(curve, letters)), width),
    ]
    return "\n\n".join(parts)


def letter(place: int) -> str:
    """A short name for the run at this place.

    >>> letter(0), letter(25), letter(26), letter(27)
    ('A', 'Z', 'AA', 'AB')
    """
    before, last = divmod(place, 26)
    return (letter(before - 1) if before else "") + chr(ord("A") + last)


def wide(rows: Sequence[Sequence[str]], width: int) -> str:
    """Rows of cells, the first row their heads; too many columns go on below, with the first column repeated.

    >>> print(wide([["pair", "cat", "dog"], ["A–B", "0.91", "0.8"]], width=12))
    pair   cat
    A–B   0.91
    <BLANKLINE>
    pair  dog
    A–B   0.8
    """
    names, *columns = [list(column) for column in zip(*rows, strict=True)]
    blocks = _blocks(columns, width - _width(names))
    return "\n\n".join(_block(names, block) for block in blocks)


def _blocks(columns: list[list[str]], room: int) -> list[list[list[str]]]:
    blocks: list[list[list[str]]] = [[]]
    left = room
    for column in columns:
        needed = _width(column) + len(GAP)
        if blocks[-1] and needed > left:
            blocks.append([])
            left = room
        blocks[-1].append(column)
        left -= needed
    return blocks


def _block(names: list[str], columns: list[list[str]]) -> str:
    aligned = [_aligned(names, str.ljust), *(_aligned(column, str.rjust) for column in columns)]
    return _lines(aligned)


def _lines(columns: Sequence[Sequence[str]]) -> str:
    return "\n".join(GAP.join(row).rstrip() for row in zip(*columns, strict=True))


def _aligned(column: Sequence[str], align: Callable[[str, int], str]) -> list[str]:
    width = _width(column)
    return [align(cell, width) for cell in column]


def _width(column: Iterable[str]) -> int:
    return max(map(len, column))


def _headed(head: str, rows: Sequence[Sequence[str]], width: int) -> str:
    return f"{head}\n\n{wide(rows, width)}"


def _legend(runs: Sequence[tuple[str, str, str]], letters: dict[str, str]) -> str:
    rows = [["", "run", "model", "id"]]
    rows += [[letters[run_id], name, model, run_id[:8]] for run_id, name, model in runs]
    return _lines([_aligned(column, str.ljust) for column in zip(*rows, strict=True)])


def _by_pair(table: pa.Table, letters: dict[str, str]) -> dict[str, list[Row]]:
    pairs: dict[str, list[Row]] = {}
    for row in table.to_pylist():
        mark = "  baseline" if row["baseline"] else ""
        pairs.setdefault(f"{letters[row['run_a']]}–{letters[row['run_b']]}{mark}", []).append(row)
    return pairs


def _measured(pairs: dict[str, list[Row]], measure: str) -> list[list[str]]:
    """For each pair a line of correlations, and under it their intervals."""
    columns = _columns(pairs)
    lines = [["", *columns.values()]]
    for pair, rows in pairs.items():
        by_label = {row["label"]: row for row in rows}
        lines.append([pair, *_cells(by_label, columns, lambda row: _number(row[measure]))])
        lines.append(["", *_cells(by_label, columns, lambda row: _interval(row, measure))])
    return lines


def _counted(pairs: dict[str, list[Row]]) -> list[list[str]]:
    """How many samples each correlation is of; one line when all pairs have the same."""
    columns = _columns(pairs)
    counts = {
        pair: _cells({row["label"]: row for row in rows}, columns, lambda row: f"{row['samples']:,}")
        for pair, rows in pairs.items()
    }
    if len(counts) > 1 and len({tuple(line) for line in counts.values()}) == 1:
        counts = {"all pairs": next(iter(counts.values()))}
    return [["", *columns.values()], *([pair, *line] for pair, line in counts.items())]


def _columns(pairs: dict[str, list[Row]]) -> dict[int | None, str]:
    """What each label is called: overall first, then the classes; beyond the first twenty they are counted only."""
    names: dict[int | None, str] = {}
    for rows in pairs.values():
        for row in rows:
            names[row["label"]] = str(row["label"]) if row["label_name"] is None else str(row["label_name"])
    classes = sorted(label for label in names if label is not None)
    shown: dict[int | None, str] = {None: "overall", **{label: names[label] for label in classes[:MOST_CLASSES]}}
    if len(classes) > MOST_CLASSES:
        shown[-1] = f"… {len(classes) - MOST_CLASSES:,} more classes: --format csv"
    return shown


def _cells(by_label: dict[int | None, Row], columns: Iterable[int | None], cell: Cell) -> list[str]:
    return [cell(by_label[label]) if label in by_label else "" for label in columns]


def _curve(pairs: dict[str, list[Row]]) -> list[list[str]]:
    """A line for each quantile. One pair has room for its interval; several share the count if it is the same."""
    quantiles = [f"{row['quantile']:.4g}" for row in next(iter(pairs.values()))]
    columns = [["quantile", *quantiles]]
    counts = {tuple(row["samples"] for row in rows) for rows in pairs.values()}
    if len(counts) == 1:
        columns.append(["n", *(f"{count:,}" for count in counts.pop())])
        columns += [[pair, *(_number(row["pearson"]) for row in rows)] for pair, rows in pairs.items()]
    else:
        columns += [[pair, *map(_number_and_count, rows)] for pair, rows in pairs.items()]
    if len(pairs) == 1:
        columns.append(["95 %", *(_interval(row, "pearson") for rows in pairs.values() for row in rows)])
    return [list(line) for line in zip(*columns, strict=True)]


def _what_the_curve_shows(curve: pa.Table) -> str:
    which = {
        "above": "among the samples at or above each quantile of the first run's action",
        "below": "among the samples at or below each quantile of the first run's action",
        "within": "among the samples from each quantile of the first run's action to the next",
    }
    return f"Pearson {which[curve['side'][0].as_py()]}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _number_and_count(row: Row) -> str:
    return f"{_number(row['pearson'])} (n {row['samples']:,})"


def _interval(row: Row, measure: str) -> str:
    low, high = row[f"{measure}_low"], row[f"{measure}_high"]
    return "" if low is None or high is None else f"{low:.2f}…{high:.2f}"
