"""Explained failures for people: a rule as a sentence, and what is behind all of them as text."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

import pyarrow as pa

from actionflow.present.rows import text_table

Row = Mapping[str, Any]


def sentence(row: Row, name: str, grouping: str, target: str) -> str:
    """What a rule says.

    >>> row = {"rule": "feature 41 ≤ 0.36", "er": 0.42, "ber": 0.31, "ec": 0.64, "holds": True}
    >>> sentence(row, "shirt", "label", "error")
    'label shirt: when feature 41 ≤ 0.36 the error rate is 0.42 (base 0.31) and 64 % of all its errors are here'
    """
    rate, failures = ("error rate", "errors") if target == "error" else ("share of high action", "high action")
    held = f"is {row['er']:.2f}" if row["er"] is not None else "is not known: no sample of the other half is here"
    told = (
        f"{grouping} {name}: when {row['rule']} the {rate} {held} (base {row['ber']:.2f}) and "
        f"{100 * row['ec']:.0f} % of all its {failures} are here"
    )
    return told if row["holds"] else f"{told}; it does not hold on the other half"


def figure_name(row: Row) -> str:
    """What the figure of a rule is called: another rule's, of an explanation that was replaced, must not stand for it.

    >>> figure_name({"grouping": "label", "depth": 1, "mode_rank": 3, "label": 2, "rule": "feature 41 ≤ 0.36"})
    'label_1_03_a73f98e0'
    """
    digest = crc32(f"{row['label']} {row['rule']}".encode())
    return f"{row['grouping']}_{row['depth']}_{row['mode_rank']:02}_{digest:08x}"


def failures_text(
    title: str, findings: Sequence[str], sentences: Sequence[str], classes: pa.Table, controls: pa.Table, width: int
) -> str:
    """A title, what was found, rules as sentences, and the tables of classes and controls."""
    told = [title, "", *(textwrap.fill(each, width) for each in findings)]
    if sentences:
        told += [
            "",
            *(textwrap.fill(f"{n}. {each}", width, subsequent_indent="   ") for n, each in enumerate(sentences, 1)),
        ]
    told += ["", text_table(shown_classes(classes)), "", text_table(shown_controls(controls))]
    return "\n".join(told)


def shown_classes(classes: pa.Table) -> pa.Table:
    """The classes as a person reads them."""
    columns = {
        "class": classes["label_name"],
        "BER": _rounded(classes["ber"]),
        "ALER": _rounded(classes["aler"]),
        "ALER - BER": _rounded(classes["gain"]),
        "by chance": _rounded(classes["chance_gain"]),
    }
    if classes["reason"].null_count < classes.num_rows:
        columns["not explained"] = pa.array([each or "" for each in classes["reason"].to_pylist()])
    return pa.table(columns)


def shown_controls(controls: pa.Table) -> pa.Table:
    """The controls as a person reads them: the paper's first table, with what the other half and chance say."""
    return pa.table(
        {
            "grouping": controls["grouping"].cast(pa.string()),
            "depth": controls["depth"],
            "classes": controls["explained"],
            "rule found": _percent(controls["found"]),
            "and holds": _percent(controls["holds"]),
            "by chance": _percent(controls["by_chance"]),
            "ALER - BER fitted": _rounded(controls["fitted_gain"]),
            "held out": _rounded(controls["gain"]),
            "chance": _rounded(controls["chance_gain"]),
        }
    )


def _rounded(column: pa.ChunkedArray) -> pa.Array:
    return pa.array(["–" if value is None else f"{value:.3f}" for value in column.to_pylist()])


def _percent(column: pa.ChunkedArray) -> pa.Array:
    return pa.array(["–" if value is None else f"{100 * value:.0f} %" for value in column.to_pylist()])
