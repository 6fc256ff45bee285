"""What the views show: for each of them, which files and tables of the open runs.

A `Session` reads these files itself; the server hands them to a process that may read nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from actionflow.errors import StoreError
from actionflow.questions.files import Value
from actionflow.questions.scoring import score
from actionflow.store import layout, parquet, schema
from actionflow.store.finding import find_runs, runs_table
from actionflow.store.marks import marks_of
from actionflow.store.reading import Recorded, StoredRun
from actionflow.store.scenario_labels import labels_of
from actionflow.store.steps import steps_of

Say = Callable[[str], None]

# The views, and the columns that each has even where no file lies below it.
VIEWS: dict[str, pa.Schema] = {
    "runs": schema.RUNS,
    "dynamics": schema.DYNAMICS,
    "scores": schema.SCORES,
    # Lists of any length, as DuckDB reads vectors from Parquet: runs may differ in it.
    "features": schema.features_schema(-1),
    "pixels": schema.pixels_schema(-1),
    "outputs": schema.OUTPUTS,
    "clusters": schema.CLUSTERS,
    "audits": schema.AUDITS,
    "failure_modes": schema.FAILURE_MODES,
    "failure_members": schema.FAILURE_MEMBERS,
    "curricula": schema.CURRICULUM,
    "samples": schema.SAMPLES,
    "marks": schema.MARKS,
    "counterexamples": schema.counterexamples_schema(-1),
    "scenarios": schema.scenarios_schema(-1),
    "scenario_labels": schema.SCENARIO_LABELS,
}
# Views of plain files, and the folder of each in a run; what may be written anew is fetched anew.
_FOLDERS = {
    "features": layout.FEATURES,
    "pixels": layout.PIXELS,
    "outputs": layout.OUTPUTS,
    "clusters": layout.CLUSTERS,
    "audits": layout.AUDITS,
    "failure_modes": layout.FAILURE_MODES,
    "failure_members": layout.FAILURE_MEMBERS,
    "curricula": layout.CURRICULA,
    "counterexamples": layout.COUNTEREXAMPLES,
    "scenarios": layout.SCENARIOS,
}
# Views of files that lie in the steps that mend a run, not in the run itself.
_STEPS = {"counterexamples": "identify", "scenarios": "distill"}
# Views of what people say, kept per experiment.
_SAID = {"marks": marks_of, "scenario_labels": labels_of}
_REWRITTEN = {"clusters", "audits", "failure_modes", "failure_members", "counterexamples", "scenarios"}


class NothingRecordedError(StoreError):
    """A run has no whole epoch, or not yet."""


@dataclass(frozen=True)
class Source:
    """Files, and rows that are in no file, which together make a view."""

    files: tuple[Path, ...] = ()
    rows: pa.Table | None = None


OfOneRun = Callable[[str, StoredRun, Say], Source]


def source_of(view: str, runs: Sequence[StoredRun], say: Say, of_one: OfOneRun | None = None) -> Source:
    """What makes a view over these runs; `of_one` says it of each of them, else `source_of_run` does."""
    if view == "runs":
        return Source(rows=runs_table(list(runs)))
    if view in _SAID:
        return Source(rows=_said(view, runs))
    if view in _STEPS:
        runs = steps_of(runs, _STEPS[view])
    if view == "samples":
        # Trainings on the same data point to the same samples: asked once.
        runs = list({run.run.data.tags.get(layout.TAG_DATASET_RUN): run for run in runs}.values())
    each = _of_each(view, runs, say, of_one or source_of_run)
    tables = [source.rows for source in each if source.rows is not None]
    files = tuple(path for source in each for path in source.files)
    return Source(files, pa.concat_tables(tables) if tables else None)


def _of_each(view: str, runs: Sequence[StoredRun], say: Say, of_one: OfOneRun) -> list[Source]:
    """The source of every run; one of several that has recorded no epoch yet is told of and left out."""
    found, empty = [], None
    for run in runs:
        try:
            found.append(of_one(view, run, say))
        except NothingRecordedError as error:
            empty = error
            if len(runs) > 1:
                say(f"run {run.run_id[:8]} has recorded no epoch yet, so it is left out.")
    if empty is not None and not found:
        raise empty
    return found


def source_of_run(view: str, run: StoredRun, say: Say) -> Source:
    """What one run brings into a view of files."""
    if view == "dynamics":
        return Source(tuple(whole_epochs(run, say).all_files()))
    if view == "scores":
        return _scores(run, say)
    if view == "samples":
        return Source(tuple(_sample_files(run, say)))
    files = run.files_now if view in _REWRITTEN else run.files
    return Source(tuple(files(_FOLDERS[view])))


def compute_scores(recorded: Sequence[Recorded], **parameters: Value) -> pa.Table:
    """Run queries/scores.sql over the epochs of these runs."""
    splits = [one.files[split] for one in recorded for split in one.splits]
    if not splits:
        return schema.SCORES.empty_table()
    return schema.filled(score(splits, schema.DYNAMICS, **parameters), schema.SCORES)


def whole_epochs(run: StoredRun, say: Say) -> Recorded:
    """The epochs of a run that can be summed; what is left out of them is said."""
    recorded = run.recorded()
    for told in recorded.left_out:
        say(f"run {run.run_id[:8]}: {told}, so it is left out.")
    if not recorded.files:
        raise _nothing_recorded(run)
    if recorded.missing:
        raise StoreError(
            f"run {run.run_id[:8]} lacks {', '.join(recorded.missing)}: its sums would be too small. Restore the files "
            "from a backup, or train it again."
        )
    return recorded


def check_recorded(runs: Sequence[StoredRun]) -> None:
    """Refuse runs of which one has nothing to ask: where each of them matters, none may be left out."""
    for run in runs:
        if not run.splits():
            raise _nothing_recorded(run)


def _nothing_recorded(run: StoredRun) -> NothingRecordedError:
    return NothingRecordedError(
        f"run {run.run_id[:8]} has no per-sample dynamics (found: {run.found()}). Wait for its first epoch, train "
        "with `mlflow run . -e digits`, or record your own loop with actionflow.Recorder."
    )


def _scores(run: StoredRun, say: Say) -> Source:
    """Scores that a finished run wrote are read; those of others are made from their dynamics now."""
    written = _written_scores(run)
    return Source(tuple(written)) if written else Source(rows=compute_scores([whole_epochs(run, say)]))


def _written_scores(run: StoredRun) -> list[Path]:
    """The scores of a run, if it has them for every split and whole; else nothing, and they are made anew."""
    paths = run.files(layout.SCORES)
    if {path.stem for path in paths} != set(run.splits()) or not all(parquet.is_whole(path) for path in paths):
        return []
    for path in paths:
        schema.stamp_of(parquet.read_schema(path), str(path))
    return paths


def _sample_files(run: StoredRun, say: Say) -> list[Path]:
    """Those of the data set's own run; when it was deleted, only the pictures are gone."""
    run_id = run.run.data.tags.get(layout.TAG_DATASET_RUN)
    if not run_id:
        return []
    try:
        return find_runs([run_id], run.client)[0].files(layout.SAMPLES)
    except StoreError:
        say(f"the pictures of data set run {run_id[:8]} are gone; numbers are whole.")
        return []


def _said(view: str, runs: Sequence[StoredRun]) -> pa.Table:
    """What was said in the runs' experiments, each experiment once."""
    experiments = {run.run.info.experiment_id: run.client for run in runs}
    tables = [_SAID[view](client, experiment_id) for experiment_id, client in experiments.items()]
    return pa.concat_tables(tables) if tables else VIEWS[view].empty_table()
