"""From what was found to what a page shows: a section for each question, its figure and the words around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actionflow.present.axes import AXES, Floats, on_an_axis
from actionflow.present.pages import plots
from actionflow.present.pages.page import Group, Points, Question, Rows, Sample, Section, Shown, Strip
from actionflow.present.pages.thumbnails import Thumbnails, thumbnails
from actionflow.reporting.asking import Answer
from actionflow.reporting.findings import PER_CLASS, Findings, drawn
from actionflow.reporting.keepsakes import is_right
from actionflow.reporting.neighbours import neighbours_section
from actionflow.reporting.samples import LONGEST_IN_A_LIST, cut, written

Row = dict[str, Any]

# What pictures may take of a page, in characters of base64.
PICTURE_ROOM = 3_300_000
# More cells than this many classes make are not told apart; the pairs that are mistaken most often are listed instead.
MOST_CONFUSED_CLASSES, MOST_CONFUSED_PAIRS = 30, 40
ACTION = AXES["action"]


@dataclass(frozen=True)
class Drawing:
    """The points of a report: what is drawn, what is told of each, and what had no room."""

    cloud: plots.Cloud
    points: Points
    shown: Shown
    pictures: Thumbnails
    logarithmic: bool
    notes: tuple[str, ...]


def draw_points(found: Findings) -> Drawing:
    """Every sample as a point: all of them, or as many as a page has room for."""
    places = drawn(found.samples)
    action, other = found.column("x")[places], found.column("y")[places]
    finite = np.isfinite(action) & np.isfinite(other)
    places, action, other = places[finite], action[finite], other[finite]
    x, logarithmic, edge = on_an_axis(action)
    ids = found.numbers("sample_id")[places]
    pictures = thumbnails(found.pictures, PICTURE_ROOM)
    columns: dict[str, NDArray[Any]] = {
        "x": x.astype(np.float32),
        "y": other.astype(np.float32),
        "action": action.astype(np.float32),
        "place": np.arange(len(places), dtype=np.int32),
        "label": found.numbers("label")[places].astype(np.int32),
        "prediction": found.numbers("prediction")[places].astype(np.int32),
        "row": _class_rows(found, places).astype(np.float32),
    }
    cloud = plots.cloud("samples", columns, found.correct[places])
    notes = (*_left_out(found, len(places), int((~finite).sum())), *_at_the_edge(edge), *_unpictured(ids, pictures))
    points = Points("samples", cloud.source_names, _told_of(found), order="action")
    return Drawing(cloud, points, found.described.shown(ids.tolist()), pictures, logarithmic, notes)


def sections(found: Findings, drawing: Drawing) -> list[Section]:
    """The page from top to bottom; what a task does not have is left out."""
    return [
        _scatter(found, drawing),
        _loss_curves(found),
        *([_classes(found, drawing)] if found.class_rows else []),
        _extremes(found, drawing.pictures),
        *(
            [neighbours_section(found.neighbours, found.described, drawing.pictures, found.called)]
            if found.neighbours.table.num_rows
            else []
        ),
        *([_confusion(found)] if found.confusion.table.num_rows else []),
        *([_accuracy(found)] if found.judged else []),
    ]


def sample_item(found: Findings, row: Row, pictures: Thumbnails, texts: dict[int, dict[str, str]]) -> Sample:
    """A sample in a list by class."""
    number = row["sample_id"]
    right = is_right(row)
    labelled = [("", f"{found.called(row['label'])} → {found.called(row['prediction'])}")]
    facts = [*(labelled if row["prediction"] is not None else []), ("action", _number(row["action"]))]
    return Sample(
        number,
        pictures.cells.get(number),
        [*facts, ("sample", f"{number}")],
        written(texts.get(number, {})),
        "" if right is None else "right" if right else "wrong",
    )


def _scatter(found: Findings, drawing: Drawing) -> Section:
    what = found.against.replace("_", " ")
    return Section(
        title=f"Action against {what}",
        words=(
            "Each point is a sample: to the right those that collected the most loss over the training. Point at one "
            "to see it, click to keep it, Escape lets go of all. With the keyboard: Tab to the figure, then arrows and "
            "Enter."
        ),
        figure=plots.scatter(drawing.cloud, ACTION, AXES[found.against], drawing.logarithmic),
        points=drawing.points.name,
        notes=drawing.notes,
        questions=[found.points.question()],
    )


def _loss_curves(found: Findings) -> Section:
    title = "Loss curves by cluster"
    if found.curves is None:
        return Section(title, f"There are none: {found.no_curves}")
    curves = found.curves
    return Section(
        title=title,
        words=(
            f"The loss of every sample in every epoch, grouped by k-means into {curves.k} clusters. Thick: the centre "
            "of a cluster; thin: the curves closest to it."
        ),
        figure=plots.loss_curves(curves.measure, curves.clusters, curves.centres, curves.closest),
        notes=curves.notes(),
        questions=[_curves_question(found)],
    )


def _curves_question(found: Findings) -> Question:
    assert found.curves is not None
    asked = Answer(
        "sample_curves", {"run_id": found.points.run_id, "split": found.curves.split}, None, found.points.run_id
    )
    question = asked.question()
    command = f"actionflow curves {found.points.run_id[:8]} -k {found.curves.k} --split {found.curves.split}"
    return Question(question.name, question.summary, question.sql, question.parameters, command)


def _classes(found: Findings, drawing: Drawing) -> Section:
    shown = found.shown_classes
    names = [found.called(row["label"]) for row in shown]
    heads = ["class", "samples", *(["accuracy"] if found.judged else []), "mean action", "p10", "median", "p90"]
    scores = ("mean_action", "action_p10", "action_p50", "action_p90")
    return Section(
        title="Action in each class",
        words="The hardest class on top. Its bar reaches from the tenth to the ninetieth percentile of its samples.",
        figure=plots.distributions(drawing.cloud, shown, names, ACTION, drawing.logarithmic),
        points=drawing.points.name,
        rows=Rows(
            heads,
            [
                [
                    name,
                    f"{row['samples']:,}",
                    *([_share(row["accuracy"])] if found.judged else []),
                    *(_number(row[each]) for each in scores),
                ]
                for name, row in zip(names, shown, strict=True)
            ],
        ),
        notes=_only_some_classes(found),
        questions=[found.classes.question()],
    )


def _extremes(found: Findings, pictures: Thumbnails) -> Section:
    if found.class_rows:
        judged = "With label, last prediction and action. Blue was right at the end, red was not."
        return Section(
            title="The hardest and the easiest of each class",
            words=judged if found.judged else "With their action.",
            groups=_groups(found, pictures),
            notes=_only_some_classes(found),
            questions=[found.hardest_by_class.question(), found.easiest_by_class.question()],
        )
    strips = [
        Strip(title, [_extreme(row, pictures) for row in found.extremes.rows() if row["difficulty"] == end][:PER_CLASS])
        for title, end in (("hardest", "most"), ("easiest", "least"))
    ]
    return Section(
        title="The hardest and the easiest samples",
        words="What they say, what was asked for, and what the model made of it, as far as the run knows.",
        groups=[Group("", "", strips)],
        questions=[found.extremes.question()],
    )


def _groups(found: Findings, pictures: Thumbnails) -> list[Group]:
    hardest, easiest = found.hardest_by_class.rows(), found.easiest_by_class.rows()
    shown = {row["label"] for row in found.shown_classes}
    texts = found.described.some(row["sample_id"] for row in [*hardest, *easiest] if row["label"] in shown)

    def strip(title: str, rows: list[Row], label: int) -> Strip:
        return Strip(title, [sample_item(found, row, pictures, texts) for row in rows if row["label"] == label])

    return [
        Group(
            found.called(row["label"]),
            _about_class(row),
            [strip("hardest", hardest, row["label"]), strip("easiest", easiest, row["label"])],
        )
        for row in found.shown_classes
    ]


def _extreme(row: Row, pictures: Thumbnails) -> Sample:
    parts = (("", row["text"]), ("beside", row["context"]), ("asked for", row["target"]), ("written", row["predicted"]))
    facts = [("action", _number(row["action"]))]
    if row["entropy"] is not None:
        facts.append(("entropy", _number(row["entropy"])))
    texts = [(word, cut(text, LONGEST_IN_A_LIST)) for word, text in parts if text]
    number = row["sample_id"]
    return Sample(number, pictures.cells.get(number), [*facts, ("sample", str(number))], texts)


def _confusion(found: Findings) -> Section:
    title, questions = "What is taken for what", [found.confusion.question()]
    cells = found.confusion.rows()
    labels = sorted({row["label"] for row in cells} | {row["prediction"] for row in cells})
    if len(labels) <= MOST_CONFUSED_CLASSES:
        return Section(
            title=title,
            words="Samples of each class by what the last epoch predicted; darker is a larger share of the class.",
            figure=plots.confusion(cells, labels, [found.called(label) for label in labels]),
            questions=questions,
        )
    mistaken = sorted((row for row in cells if row["label"] != row["prediction"]), key=lambda row: -row["samples"])
    return Section(
        title=title,
        words=f"Of {len(labels):,} classes, the pairs that are mistaken most often.",
        rows=Rows(
            ["label", "predicted", "samples", "share of the class", "mean action"],
            [
                [
                    found.called(row["label"]),
                    found.called(row["prediction"]),
                    f"{row['samples']:,}",
                    f"{100 * row['share']:.1f} %",
                    _number(row["mean_action"]),
                ]
                for row in mistaken[:MOST_CONFUSED_PAIRS]
            ],
        ),
        questions=questions,
    )


def _accuracy(found: Findings) -> Section:
    return Section(
        title="Accuracy by quantile of action",
        words="How well action tells what the model gets wrong: the samples in order of action, in bins of equal size.",
        figure=plots.accuracy_by_quantile(found.accuracy.rows()),
        questions=[found.accuracy.question()],
    )


def _class_rows(found: Findings, places: NDArray[np.int64]) -> Floats:
    labels, ids = found.numbers("label")[places], found.numbers("sample_id")[places]
    return plots.row_of_class(labels, ids, [row["label"] for row in found.shown_classes])


def _told_of(found: Findings) -> list[tuple[str, str, str]]:
    facts = [("action", "action", "number"), (found.against.replace("_", " "), "y", "number")]
    if not found.class_rows:
        return facts
    predicted = [("predicted", "prediction", "class")] if found.confusion.table.num_rows else []
    return [("label", "label", "class"), *predicted, *facts]


def _left_out(found: Findings, shown: int, not_finite: int) -> list[str]:
    told = []
    if shown + not_finite < found.samples:
        told.append(f"{shown:,} of {found.samples:,} samples are drawn, evenly spaced in the order of action.")
    if not_finite:
        told.append(f"Not drawn, for one of the scores is not a finite number: {not_finite:,}.")
    return told


def _at_the_edge(count: int) -> list[str]:
    word, verb = ("sample", "stands") if count == 1 else ("samples", "stand")
    return [f"{count:,} {word} with an action of about 0 {verb} at the left edge."] if count else []


def _unpictured(ids: NDArray[np.int64], pictures: Thumbnails) -> list[str]:
    with_picture = sum(int(each) in pictures.cells for each in ids)
    if not pictures.cells or with_picture == len(ids):
        return []
    return [
        f"{with_picture:,} of {len(ids):,} points have their picture in this file, the hardest among them; the others "
        "would make it too large."
    ]


def _only_some_classes(found: Findings) -> Sequence[str]:
    if len(found.shown_classes) == len(found.class_rows):
        return ()
    command = f"actionflow query class_difficulty --run {found.points.run_id[:8]}"
    return (f"The {len(found.shown_classes)} hardest of {len(found.class_rows):,} classes; `{command}` has all.",)


def _about_class(row: Row) -> str:
    accuracy = "" if row["accuracy"] is None else f", accuracy {row['accuracy']:.3f}"
    return f"{row['samples']:,} samples{accuracy}, mean action {_number(row['mean_action'])}"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"
