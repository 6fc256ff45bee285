"""From parts as they were found to a data set whose parts can be trained on: at least `train` and `test`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from actionflow.errors import DataError
from actionflow.training.data.forms import named_source
from actionflow.training.data.splits import fixed_split
from actionflow.training.texts.dataset import TextDataset, TextSamples
from actionflow.training.texts.known_texts import Wanted
from actionflow.training.texts.labels import Classes, found_classes, known_classes
from actionflow.training.texts.rows import Rows
from actionflow.training.texts.samples import Draft, drafted


def assemble(
    name: str,
    task: str,
    parts: Sequence[Rows],
    wanted: Wanted,
    class_names: tuple[str, ...] = (),
    place: str = "",
    left_aside: Sequence[str] = (),
) -> TextDataset:
    """Make a data set of parts in the order of their ids; without `class_names` the labels that are found are names."""
    drafts = [drafted(rows, wanted) for rows in parts]
    unlabelled = [draft for draft in drafts[1:] if class_names and _hides_labels(draft)]
    drafts = [draft for draft in drafts if draft not in unlabelled]
    classes = _classes(drafts, class_names, place) if wanted.label else None
    samples, first_id = {}, 0
    for draft in drafts:
        samples[draft.rows.part] = draft.samples(first_id, classes)
        first_id += len(draft.rows)
    arranged, notes = _arranged(samples, {draft.rows.part: draft.rows.called for draft in drafts})
    hidden = [f"{draft.rows.called}, which has no labels" for draft in unlabelled]
    aside = [*left_aside, *hidden, *(why for draft in drafts for why in draft.left_aside)]
    source = named_source("; ".join([place, *notes]), aside)
    return TextDataset(name, task, classes.names if classes else (), arranged, source)


def _classes(drafts: Sequence[Draft], class_names: tuple[str, ...], place: str) -> Classes:
    if class_names:
        return known_classes(class_names)
    return found_classes([(draft.spelled_labels(), draft.usable) for draft in drafts], place)


def _hides_labels(draft: Draft) -> bool:
    """Benchmarks keep the labels of their test part for themselves: no column, or the same mark in every row."""
    return not draft.label_column or draft.spelled_labels().unique().to_pylist() in (["-1"], ["-"], [""])


def _arranged(found: dict[str, TextSamples], called: dict[str, str]) -> tuple[dict[str, TextSamples], list[str]]:
    """The parts as a training needs them, and what has to be said of it."""
    names = list(found)
    if len(names) == 1:
        samples = found[names[0]]
        return fixed_split(samples, _groups(samples)), [f"a fixed fifth of {called[names[0]]} is held out as test"]
    if len(names) == 3 or names == ["train", "test"]:
        return found, []
    first, second = names
    notes = [] if first == "train" else [f"trained on {called[first]}, as there is no train part"]
    if second != "test":
        notes.append(f"{called[second]} is held out as test")
    return {"train": found[first], "test": found[second]}, notes


def _groups(samples: TextSamples) -> Sequence[str]:
    """What must not be torn apart: questions on one article or, where there is only one, on one passage."""
    if "answers" not in samples.metadata:
        return ()
    for groups in (samples.metadata.get("title", ()), samples.columns["context"]):
        if len(set(groups)) > 1:
            return list(groups)
    return ()


def refuse_strangers(dataset: TextDataset, place: Path) -> None:
    """Nothing can be held out that was never trained on."""
    trained = set(dataset.parts["train"].labels.tolist())
    for part, samples in dataset.parts.items():
        strangers = sorted(set(samples.labels.tolist()) - trained)
        if strangers:
            names = ", ".join(dataset.class_names[number] for number in strangers)
            raise DataError(
                f"{place} has {part} texts of {names} but no training texts: add some, or leave the class out."
            )
