"""Labelling failure scenarios: what a person is shown, what they may say, and what comes of what several said.

On paper it is a folder with a picture of each scenario and `labels.csv` to fill in; `actionflow serve` has the same as
a page. An answer is a class by its number or name, `none` (not one class), or `fine` (the classifier is right).
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlflow import MlflowClient

from actionflow.analysis.annotation import Progress, Verdict, judged_by_people, judged_by_sources, progress
from actionflow.errors import QueryError, StoreError, nearest
from actionflow.store import layout, parquet
from actionflow.store.finding import find_runs
from actionflow.store.reading import StoredRun
from actionflow.store.scenario_labels import CLASS, FINE, NONE, ScenarioLabel, add_labels, labels_of
from actionflow.store.steps import steps_of

Row = dict[str, Any]
Names = Mapping[int, str]

CSV, SHEET = "labels.csv", "scenario-{:03d}.png"
SOURCE = "source"
# A spreadsheet would take what begins with these for a formula.
FORMULA = ("=", "+", "-", "@")


def distilled_of(word: str, client: MlflowClient) -> StoredRun:
    """The newest finished step distill of a classifier, a chain, or any of its steps."""
    named = find_runs([word], client)[0]
    finished = [run for run in steps_of([named], "distill") if run.run.info.status == "FINISHED"]
    if not finished:
        raise StoreError(
            f"nothing was distilled for run {named.name} ({named.run_id[:8]}) yet: type "
            f"mlflow run . -e defuse -P run={named.run_id[:8]}"
        )
    return finished[0]


def scenarios_in(distilled: StoredRun) -> list[Row]:
    """The scenarios of a step distill, the heaviest first."""
    rows = [row for path in distilled.files_now(layout.SCENARIOS) for row in parquet.read(path).to_pylist()]
    return sorted(rows, key=lambda row: row["scenario"])


def classes_in(distilled: StoredRun) -> dict[int, str]:
    """The classes of the classifier by number, as the step wrote them down."""
    names = distilled.description()["class_names"]
    return dict(enumerate(names))


def check_labels(labels: Sequence[ScenarioLabel], scenarios: Sequence[Row], names: Names) -> None:
    """Refuse labels of scenarios and samples that are not there, and classes that the classifier does not know."""
    shown = {row["scenario"]: len(row["sample_images"]) for row in scenarios}
    for each in labels:
        if each.scenario not in shown:
            raise QueryError(f"there is no scenario {each.scenario}: there are {_range(shown)}.")
        if each.sample is not None and not 1 <= each.sample <= shown[each.scenario]:
            raise QueryError(f"scenario {each.scenario} has samples 1 to {shown[each.scenario]}, found {each.sample}.")
        if each.label is not None and each.label not in names:
            raise QueryError(f"scenario {each.scenario}: {_no_class(str(each.label), names)}")


def keep_labels(
    client: MlflowClient, distilled: StoredRun, labels: Sequence[ScenarioLabel], labelled_by: str
) -> Progress:
    """Keep what one person says of scenarios, once it is known to be of them; how far labelling is then."""
    scenarios = scenarios_in(distilled)
    check_labels(labels, scenarios, classes_in(distilled))
    add_labels(client, distilled.run.info.experiment_id, distilled.run_id, labels, labelled_by)
    return progress(scenarios, labels_for(client, distilled))


def labels_for(client: MlflowClient, distilled: StoredRun) -> list[Row]:
    """What people have said of the scenarios of one step."""
    rows = labels_of(client, distilled.run.info.experiment_id).to_pylist()
    return [row for row in rows if row["distill_run"] == distilled.run_id]


def judged(
    scenarios: Sequence[Row],
    labels: Sequence[Row],
    by: str,
    rho: float,
    skip_unlabelled: bool,
    how: str = "label the rest",
) -> list[Verdict]:
    """The verdict on each scenario, by people or by the sources' labels; half-done labelling is told, not guessed."""
    if by == SOURCE:
        return judged_by_sources(scenarios, rho)
    done = progress(scenarios, labels)
    if done.unlabelled and not (skip_unlabelled and len(done.unlabelled) < done.scenarios):
        missing = ", ".join(map(str, done.unlabelled[:10])) + (" …" if len(done.unlabelled) > 10 else "")
        raise QueryError(
            f"{done.told}, missing {missing}. {how}; or go on with -P unlabelled=skip, or with -P labels=source."
        )
    return judged_by_people(scenarios, labels, rho)


def progress_of(distilled: StoredRun) -> str:
    """What is left to label and how, for a person; nothing when every scenario has an answer."""
    scenarios = scenarios_in(distilled)
    done = progress(scenarios, labels_for(distilled.client, distilled))
    if not done.unlabelled:
        return ""
    return (
        f"{done.told}. {how_to_label(distilled)}, then go on with "
        f"mlflow run . -e correct -P run={distilled.run_id[:8]}; or let the sources' labels stand: -P labels=source"
    )


def how_to_label(distilled: StoredRun) -> str:
    """The two ways to label the scenarios of a step."""
    return (
        f"Label them at /actionflow/scenarios/{distilled.run_id} of `actionflow serve`, or fill in the labels.csv of "
        f"`actionflow scenarios {distilled.run_id[:8]} --sheets DIR` and type -P labels=DIR/labels.csv"
    )


def answer_of(word: str, scenario: int, names: Names, sample: int | None = None) -> ScenarioLabel:
    """What somebody typed: a class by number or name, none, or fine."""
    said = word.strip()
    if said.lower() in (NONE, FINE):
        return ScenarioLabel(scenario, said.lower(), None, sample)
    by_name = {name.lower(): label for label, name in names.items()}
    if said.lower() in by_name:
        return ScenarioLabel(scenario, CLASS, by_name[said.lower()], sample)
    if said.isdigit() and int(said) in names:
        return ScenarioLabel(scenario, CLASS, int(said), sample)
    raise QueryError(f"scenario {scenario}: {_no_class(said, names)}")


def read_csv(path: str | Path, scenarios: Sequence[Row], names: Names) -> list[ScenarioLabel]:
    """The answers of a `labels.csv`: those of whole scenarios, and of single samples where these differ."""
    _check_any(scenarios)
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"cannot read the labels {path}: {error}.") from error
    if not rows or not {"scenario", "answer"} <= set(rows[0]):
        raise QueryError(
            f"{path} lacks the columns scenario and answer: `actionflow scenarios RUN --sheets DIR` makes one."
        )
    labels = [label for row in rows for label in _labels_of(row, names)]
    check_labels(labels, scenarios, names)
    return labels


def write_sheets(folder: Path, scenarios: Sequence[Row], names: Names) -> list[Path]:
    """A picture of every scenario and the CSV to fill in; an answer that is there already is not written over."""
    _check_any(scenarios)
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / CSV
    if target.exists():
        raise StoreError(f"{target} is there already, maybe filled in: name another folder.")
    paths = []
    for row in scenarios:
        path = folder / SHEET.format(row["scenario"])
        sheet([row], names).savefig(path)
        paths.append(path)
    with target.open("w", newline="") as file:
        most = max((len(row["sample_images"]) for row in scenarios), default=0)
        writer = csv.writer(file)
        writer.writerow(["scenario", "sheet", "classifier_says", "answer", *(f"sample_{n + 1}" for n in range(most))])
        for row, path in zip(scenarios, paths, strict=True):
            writer.writerow([row["scenario"], path.name, _harmless(says(row, names)), "", *[""] * most])
    return [*paths, target]


def sheet(scenarios: Sequence[Row], names: Names) -> Any:
    """The wall of some scenarios as a figure: ten samples each, with what the classifier takes them for."""
    from actionflow.present.pages.grids import Cell
    from actionflow.present.strips import PictureRow, picture_rows

    rows = [
        PictureRow(
            f"scenario {row['scenario']}\n{row['size']:,} found",
            [
                Cell(image, names[says_], f"{place}: {confidence:.2f}", None)
                for place, (image, says_, confidence) in enumerate(
                    zip(row["sample_images"], row["sample_predictions"], row["sample_confidences"], strict=True), 1
                )
            ],
        )
        for row in scenarios
    ]
    about = "above each sample what the classifier says, its number, and how sure it is"
    return picture_rows(rows, "Failure scenarios", about)


def says(row: Row, names: Names) -> str:
    """What the classifier says of a scenario's samples, the most frequent first."""
    said = row["sample_predictions"]
    order = sorted(set(said), key=lambda each: (-said.count(each), each))
    return ", ".join(f"{names[each]} ({said.count(each)})" for each in order)


def _check_any(scenarios: Sequence[Row]) -> None:
    if not scenarios:
        raise QueryError("there is nothing to label: no scenario was found.")


def _labels_of(row: Mapping[str, Any], names: Names) -> list[ScenarioLabel]:
    number = (row.get("scenario") or "").strip()
    if not number.isdigit():
        raise QueryError(f"the column scenario has numbers, found {number!r}.")
    found = []
    if (row.get("answer") or "").strip():
        found.append(answer_of(row["answer"], int(number), names))
    for column, word in row.items():
        if column and column.startswith("sample_") and column[7:].isdigit() and (word or "").strip():
            found.append(answer_of(word, int(number), names, int(column[7:])))
    return found


def _no_class(word: str, names: Names) -> str:
    told = ", ".join(f"{label} ({name})" if name != str(label) else name for label, name in names.items())
    return f"{word!r} is no class, none or fine. {nearest(word, [*names.values(), NONE, FINE])} By number: {told}."


def _range(shown: Mapping[int, int]) -> str:
    return f"{min(shown)} to {max(shown)}" if shown else "none"


def _harmless(text: str) -> str:
    return f"'{text}" if text.startswith(FORMULA) else text
