"""Explained groups as the rows of the views `failure_modes` and `failure_members`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from actionflow.analysis.attributes import Name
from actionflow.analysis.failure_modes import DEPTHS, Chance, Cut, Group, Terms
from actionflow.analysis.failure_trees import Condition
from actionflow.explaining.asking import NO_CLASS, Asked
from actionflow.store import schema

Row = dict[str, Any]
# What a rule of no step says.
ALWAYS = "always"


def modes_table(
    groups: Mapping[str, Sequence[Group]], names: Sequence[Name], known: Mapping[str, str], terms: Terms
) -> pa.Table:
    """A row for each leaf of each class, grouping and depth, in order; `known` are columns that never change."""
    rows = [
        {**row, "grouping": grouping, "depth": depth, **known}
        for grouping, explained in groups.items()
        for depth in DEPTHS
        for row in _ranked([leaf for group in explained for leaf in _leaves(group, depth, names, terms)])
    ]
    return pa.Table.from_pylist(rows, schema=schema.FAILURE_MODES)


def members_table(groups: Mapping[str, Sequence[Group]], asked: Asked, known: Mapping[str, str]) -> pa.Table:
    """A row for each sample, grouping and depth: the leaf that it falls in."""
    parts = [
        pa.concat_tables([_members(group, asked, depth, {"grouping": grouping, **known}) for group in explained])
        for grouping, explained in groups.items()
        for depth in DEPTHS
    ]
    return pa.concat_tables([part.sort_by("sample_id") for part in parts])


def rule_in_words(conditions: Sequence[Condition], names: Sequence[Name]) -> str:
    """A rule as a person reads it.

    >>> names = [Name("words of text"), Name("weather=rain", "weather is rain", "weather is not rain")]
    >>> rule_in_words([Condition(0, True, 12.5), Condition(1, False, 0.5)], names)
    'words of text > 12.5 and weather is not rain'
    """
    return " and ".join(_in_words(each, names[each.feature]) for each in conditions) or ALWAYS


def _in_words(step: Condition, name: Name) -> str:
    if name.yes:
        return name.yes if step.above else name.no
    return f"{name.name} {'>' if step.above else '≤'} {step.threshold:.4g}"


def _leaves(group: Group, depth: int, names: Sequence[Name], terms: Terms) -> Iterator[Row]:
    label = None if group.label == NO_CLASS else group.label
    if group.reason is not None:
        counts = {"samples": len(group.rows), "failures": int(group.failed.sum())}
        yield {"label": label, "reason": group.reason, **counts, "ber": counts["failures"] / counts["samples"]}
        return
    cut = group.cuts[depth]
    for place in range(len(cut.nodes)):
        yield {
            "label": label,
            "leaf": place + 1,
            **_figures(cut, place, terms),
            **_by_chance(group.chance[depth], cut),
        } | {
            "rule": rule_in_words(cut.rules[place], names),
            "conditions": [{**vars(step), "name": names[step.feature].name} for step in cut.rules[place]],
        }


def _figures(cut: Cut, place: int, terms: Terms) -> Row:
    found, holds = cut.are_valid(terms)
    held, fitted = cut.held, cut.fitted
    er = held.er[place]
    return {
        "samples": int(held.samples[place]),
        "failures": int(held.failures[place]),
        "er": None if np.isnan(er) else float(er),
        "ec": float(held.ec[place]),
        "iv": float(held.iv[place]),
        "ber": held.ber,
        "aler": held.aler,
        "gain": held.gain,
        "fitted_er": float(fitted.er[place]),
        "fitted_ec": float(fitted.ec[place]),
        "fitted_iv": float(fitted.iv[place]),
        "fitted_ber": fitted.ber,
        "fitted_gain": fitted.gain,
        "found": bool(found[place]),
        "holds": bool(holds[place]),
    }


def _by_chance(chance: Chance, cut: Cut) -> Row:
    if not len(chance.gains):
        return {}
    return {
        "chance_gain": float(chance.gains.mean()),
        "chance_valid": float(chance.valid.mean()),
        "beaten": float((chance.gains < cut.held.gain).mean()),
    }


def _ranked(rows: list[Row]) -> list[Row]:
    """Over all classes: first what was found, by its importance on the half that it was found on.

    What was not explained stands last and has no rank.
    """
    order = sorted(rows, key=lambda row: ("leaf" not in row, not row.get("found", False), -row.get("fitted_iv", 0.0)))
    return [{**row, "mode_rank": rank} if "leaf" in row else row for rank, row in enumerate(order, 1)]


def _members(group: Group, asked: Asked, depth: int, known: Mapping[str, str]) -> pa.Table:
    count = len(group.rows)
    explained = group.reason is None
    columns = {
        **{
            name: schema.constant(value, count) for name, value in known.items() if name in schema.FAILURE_MEMBERS.names
        },
        "sample_id": pa.array(asked.sample_ids[group.rows]),
        "depth": pa.repeat(pa.scalar(depth, pa.int32()), count),
        "label": pa.nulls(count, pa.int32())
        if group.label == NO_CLASS
        else pa.repeat(pa.scalar(group.label, pa.int32()), count),
        "leaf": pa.array(group.leaf_of[depth].astype(np.int32)) if explained else pa.nulls(count, pa.int32()),
        "failed": pa.array(group.failed),
        "fitted": pa.array(group.fitted) if explained else pa.nulls(count, pa.bool_()),
    }
    return schema.filled(pa.table(columns), schema.FAILURE_MEMBERS)
