"""A report as one HTML file: what stands on it, and how it becomes text.

Nothing on the page asks the network: script, style, pictures and numbers are inside it, and its content security policy
forbids the rest. Names and texts are written by Jinja, which escapes them, or by the page's script as plain text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from bokeh.document import Document
from bokeh.models.ui import UIElement
from bokeh.resources import Resources
from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from actionflow.present.pages.thumbnails import COLUMNS, PER_SHEET, Thumbnails

# What HTML would read as the end of a script, and what JavaScript would read as the end of a line.
IN_A_SCRIPT = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
# The shown size of a picture in a list, in pixels.
SHOWN_SIDE = 72


@dataclass(frozen=True)
class Question:
    """The query behind a figure: its file, the values it was asked with, and the command that asks it again."""

    name: str
    summary: str
    sql: str
    parameters: Mapping[str, Any]
    command: str


@dataclass(frozen=True)
class Sample:
    """A sample in a list: which picture, what it says, what it was taken for."""

    sample_id: int
    cell: int | None
    facts: Sequence[tuple[str, str]]
    texts: Sequence[tuple[str, str]] = ()
    verdict: str = ""


@dataclass(frozen=True)
class Strip:
    """A list of samples under a small heading."""

    title: str
    samples: Sequence[Sample]


@dataclass(frozen=True)
class Group:
    """Strips that belong together, such as the hardest and the easiest of a class."""

    title: str
    about: str
    strips: Sequence[Strip]


@dataclass(frozen=True)
class Rows:
    """A table of words and numbers; the first column names the row."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Drawing:
    """A picture as a data URI, and what stands below it."""

    source: str
    told: str


@dataclass(frozen=True)
class Section:
    """A part of the page: a heading, a sentence, a figure or a table or lists, and the SQL behind them."""

    title: str
    words: str
    figure: UIElement | None = None
    points: str = ""
    rows: Rows | None = None
    groups: Sequence[Group] = ()
    notes: Sequence[str] = ()
    drawings: Sequence[Drawing] = ()
    questions: Sequence[Question] = ()


@dataclass(frozen=True)
class Points:
    """Which sources hold the points of a figure that show a sample each, and what to tell of them.

    `facts` are (word, column, kind): kind is `number`, `count`, or `class` for a number that stands for a class.
    """

    name: str
    sources: Sequence[str]
    facts: Sequence[tuple[str, str, str]]
    order: str


@dataclass(frozen=True)
class Shown:
    """The samples that points stand for: `sample_ids`, their keys and texts, by place."""

    sample_ids: Sequence[int]
    keys: Sequence[str | None] = ()
    texts: Sequence[str | None] = ()


@dataclass(frozen=True)
class Page:
    """Everything that a report shows."""

    title: str
    facts: Sequence[tuple[str, str]]
    sections: Sequence[Section]
    warning: str = ""
    pictures: Thumbnails = field(default_factory=lambda: Thumbnails(1, 1, (), {}))
    shown: Shown = field(default_factory=lambda: Shown(()))
    points: Sequence[Points] = ()
    classes: Mapping[int, str] = field(default_factory=dict)

    def html(self) -> str:
        """The file's text."""
        figures = [section.figure for section in self.sections if section.figure is not None]
        places = {id(figure): f"figure-{place}" for place, figure in enumerate(figures)}
        return (
            _environment()
            .get_template("report.html")
            .render(
                page=self,
                places=places,
                figures=Markup(_figures(figures, places)) if figures else "",
                data=Markup(_in_a_script(_json(self._data()))),
                bokeh=Markup(bokeh_script()) if figures else "",
                id_of=id,
                columns=COLUMNS,
                per_sheet=PER_SHEET,
                scale=SHOWN_SIDE / self.pictures.side,
            )
        )

    def _data(self) -> dict[str, Any]:
        """What the page's script tells of a sample that is pointed at."""
        return {
            "samples": [int(each) for each in self.shown.sample_ids],
            "keys": list(self.shown.keys),
            "texts": list(self.shown.texts),
            "cells": [self.pictures.cells.get(int(each), -1) for each in self.shown.sample_ids],
            "classes": {str(number): name for number, name in self.classes.items()},
            "points": [vars(each) for each in self.points],
            "perSheet": PER_SHEET,
            "columns": COLUMNS,
        }


@cache
def bokeh_script() -> str:
    """The plotting library's own script, from its package."""
    return "\n".join(Resources(mode="inline", components=["bokeh"], log_level="fatal").js_raw)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("actionflow.present.pages"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals["style"] = _file(environment, "report.css")
    environment.globals["script"] = _file(environment, "report.js")
    return environment


def _file(environment: Environment, name: str) -> Markup:
    assert environment.loader is not None
    return Markup(environment.loader.get_source(environment, name)[0])


def _figures(figures: Sequence[UIElement], places: Mapping[int, str]) -> str:
    """One document for all figures, so that they can share the points they show."""
    document = Document()
    for figure in figures:
        document.add_root(figure)
    roots = {figure.id: places[id(figure)] for figure in figures}
    item = {"docid": "report", "roots": roots, "root_ids": list(roots)}
    return _in_a_script(_json({"docs": {"report": document.to_json(deferred=False)}, "items": [item]}))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _in_a_script(text: str) -> str:
    for character, written in IN_A_SCRIPT.items():
        text = text.replace(character, written)
    return text
