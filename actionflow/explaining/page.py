"""The report of explained failures: rules, classes, controls, and what the first rules look at."""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from PIL.Image import Image

from actionflow.present.failures import shown_classes, shown_controls
from actionflow.present.pages.page import Drawing, Group, Page, Rows, Sample, Section, Strip
from actionflow.reporting.asking import Answer
from actionflow.reporting.samples import Described, written
from actionflow.session import Session

if TYPE_CHECKING:
    from actionflow.explaining.failures import Explanation

# Rules in the table, and failures that are read of each rule that has no figure.
MOST_RULES, READ = 60, 5


def failures_page(session: Session, found: Explanation, figures: Mapping[int, Image]) -> Page:
    """Lay out the page of an explanation whose run the session has open."""
    sections = [_rules(found), _controls(found), _classes(found)]
    if figures:
        sections.append(_figures(found, figures))
    elif texts := _texts(session, found):
        sections.append(texts)
    terms = found.terms
    return Page(
        title=found.title(),
        facts=[
            ("run", f"{found.run_name} ({found.run_id[:8]})"),
            ("explained by", found.source),
            ("rules", f"error rate above the class's + {terms.delta:g}, more than {100 * terms.tau:g} % of its errors"),
            ("features chosen", f"{terms.top} for each class, by mutual information"),
            ("shuffles", str(terms.permutations)),
            ("seed", str(terms.seed)),
        ],
        sections=sections,
    )


def _rules(found: Explanation) -> Section:
    rows = found.rules.slice(0, MOST_RULES).to_pylist()
    heads = ["rule", "ER", "BER", "EC", "IV", "ALER", "ALER - BER", "samples", "ER fitted", "holds"]
    return Section(
        title="When it fails",
        words="Rules that were found on one half of the samples, the most important first; figures are of the other.",
        rows=Rows(heads, [_line(found, row) for row in rows]) if rows else None,
        notes=found.findings(),
        questions=[
            _answer(found, "failure_modes", split=found.split, grouping=found.grouping, depth=found.depth).question()
        ],
    )


def _line(found: Explanation, row: dict[str, Any]) -> list[str]:
    figures = [_figure(row[name]) for name in ("er", "ber", "ec", "iv", "aler", "gain")]
    return [
        f"{found.called(row['label'])}: {row['rule']}",
        *figures,
        f"{row['samples']:,}",
        _figure(row["fitted_er"]),
        "yes" if row["holds"] else "no",
    ]


def _controls(found: Explanation) -> Section:
    words = (
        "The share of classes with a valid rule on the half it was found on, with one that holds on the other half, "
        "and with such a one when failures are shuffled; and how far trees lift the error rate, ALER - BER, in the "
        "same three ways."
    )
    answer = _answer(found, "failure_controls", split=found.split)
    return Section(
        title="Is it more than chance?",
        words=words,
        rows=_rows(shown_controls(found.controls)),
        questions=[answer.question()],
    )


def _classes(found: Explanation) -> Section:
    words = (
        f"By {found.grouping}, depth {found.depth}: the base error rate of each class, and what its tree makes of it."
    )
    return Section(title="Classes", words=words, rows=_rows(shown_classes(found.classes())))


def _figures(found: Explanation, figures: Mapping[int, Image]) -> Section:
    sentences = {row["mode_rank"]: found.sentence(row) for row in found.rules.to_pylist()}
    return Section(
        title="What the rules look at",
        words="Of each feature the samples of the class in which it is highest, where it looks (yellow is most), "
        "and the same samples changed so that it is higher still; below them failures of the rule, at random.",
        drawings=[Drawing(_data_uri(figure), sentences[rank]) for rank, figure in figures.items()],
    )


def _texts(session: Session, found: Explanation) -> Section | None:
    """Failures of the first rules to be read, where samples are texts."""
    described = Described.of(session, found.run_id)
    if not described.table.num_rows or described.table["text"].null_count == described.table.num_rows:
        return None
    groups = [_read(found, described, row) for row in found.rules.slice(0, 12).to_pylist()]
    return Section(title="Failures to read", words="Of each rule some failures at random.", groups=groups)


def _read(found: Explanation, described: Described, row: dict[str, Any]) -> Group:
    leaf = found.in_leaf(row)
    failures = leaf.filter(leaf["failed"])["sample_id"].to_numpy()
    chosen = np.random.default_rng([found.terms.seed, len(failures)]).permutation(failures)[:READ]
    texts = described.some(chosen.tolist())
    samples = [
        Sample(number, None, [("sample", str(number))], written(texts.get(number, {})))
        for number in sorted(chosen.tolist())
    ]
    return Group(found.sentence(row), "", [Strip(f"{len(samples)} of {len(failures):,} failures", samples)])


def _answer(found: Explanation, name: str, **parameters: Any) -> Answer:
    return Answer(name, parameters, None, found.run_id)


def _rows(table: pa.Table) -> Rows:
    return Rows(table.column_names, [[str(each) for each in row.values()] for row in table.to_pylist()])


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _data_uri(figure: Image) -> str:
    file = io.BytesIO()
    figure.save(file, "PNG", optimize=True)
    return f"data:image/png;base64,{b64encode(file.getvalue()).decode()}"
