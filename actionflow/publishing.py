"""What a paper shows of some runs: its figures and tables, as files or in one MLflow run."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pyarrow as pa
from matplotlib import rc_context
from mlflow import MlflowClient
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NOTE
from tqdm import tqdm

from actionflow.comparing import ComparedRun, Comparison, compare, named_runs, short, tags_of
from actionflow.errors import SettingsError, StoreError
from actionflow.present.rows import write as write_rows
from actionflow.reporting.note import escaped
from actionflow.reporting.paper import exhibits
from actionflow.session import connect
from actionflow.sources import check_recorded
from actionflow.store.showing import introduce, kept_in_a_run, log_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KIND = "paper_figures"
# What figures can be written as; MLflow's own pages show the first.
FORMATS = ("png", "pdf", "svg")
# MLflow keeps 8,000 characters of a note.
MOST_NAMED, MOST_NOTES = 20, 10
# In an inch, of what is no line or letter.
DOTS = 200
ABOUT = {
    "accuracy_by_score": "accuracy as a function of action, of the variance of the loss, and of entropy",
    "action_against_entropy": "action against entropy, a panel for each run",
    "variance_against_entropy": "the variance of the loss against entropy",
    "quantile_correlation": "how far runs agree among the hardest samples, pairs of the same model dashed",
    "neighbours": "the hardest samples of each run and those that it finds most alike",
    "easiest_and_hardest": "the nine easiest and the nine hardest of each class",
    "runs": "the runs and their accuracy",
    "entropy_correlation": "Pearson and Spearman of action, and of the variance, with entropy",
    "agreement": "correlation of action for each pair of runs, overall and in each class; baseline: one model twice",
}


@dataclass(frozen=True)
class PaperFigures:
    """Tables by the names of their files, and figures that are drawn when they are written."""

    runs: tuple[ComparedRun, ...]
    split: str
    tables: Mapping[str, pa.Table]
    figures: Mapping[str, Callable[[], Figure]]
    left_out: Sequence[str]
    tracking_uri: str | None = None

    def notes(self) -> list[str]:
        """What was left out, and why."""
        return list(self.left_out)

    def write(self, folder: str | Path, formats: Sequence[str] = FORMATS[:1]) -> list[Path]:
        """Write all of it into a folder, which is made if it is not there; files of the same names are replaced."""
        _check_formats(formats)
        try:
            tables = [self._write_table(Path(folder), name) for name in self.tables]
            figures = [
                path
                for name in tqdm(self.figures, "drawing", leave=False, disable=None, file=sys.stderr)
                for path in self._write_figure(Path(folder), name, formats)
            ]
        except OSError as error:
            raise StoreError(
                f"cannot write into {folder}: {error.strerror}. Name a folder that can be written to."
            ) from error
        return tables + figures

    def log(self, run_id: str | None = None, name: str = "", formats: Sequence[str] = FORMATS[:1]) -> str:
        """Write all of it into an MLflow run and return its id; figures as PNG, which MLflow shows, and as asked for.

        The run is a new one in the experiment of the first run, unless `run_id` names one that is open already.
        """
        _check_formats(formats)
        client = MlflowClient(tracking_uri=self.tracking_uri)
        with kept_in_a_run(client, "figures", self.runs[0].experiment_id, run_id) as target:
            called = ",".join(run.name for run in self.runs)
            tags = {**tags_of(KIND, self.runs), MLFLOW_RUN_NOTE: self.note(target)}
            title = name or short(f"figures of {called}")
            introduce(client, target, title, {"runs": called, "split": self.split}, tags)
            with TemporaryDirectory() as folder:
                self.write(folder, list(dict.fromkeys([FORMATS[0], *formats])))
                client.log_artifacts(target, folder)
            for table, content in self.tables.items():
                log_table(client, target, content.to_pydict(), f"{table}.json")
        return target

    def note(self, run_id: str) -> str:
        """What the run says of itself in MLflow's pages, in Markdown."""
        runs = ", ".join(f"**{escaped(run.name)}**" for run in self.runs[:MOST_NAMED])
        more = f" and {len(self.runs) - MOST_NAMED:,} more" if len(self.runs) > MOST_NAMED else ""
        pictures = [
            f"![{ABOUT[name]}](get-artifact?path={name}.png&run_uuid={run_id})"
            for name in ("accuracy_by_score", "action_against_entropy", "quantile_correlation")
            if name in self.figures
        ]
        roots = dict.fromkeys(name.partition("/")[0] for name in self.figures)
        figures = [f"- `{name}{_ending(name, self.figures)}`: {ABOUT[name]}" for name in roots]
        tables = [f"- `{name}.csv`, `{name}.json`: {ABOUT[name]}" for name in self.tables]
        # Markdown: four spaces keep names as they are.
        lacking = [f"    {line}" for line in self.left_out[:MOST_NOTES]]
        return "\n\n".join(
            [
                f"Figures and tables of {runs}{more}, {self.split} samples.",
                "\n".join(["Figures:", "", *figures]),
                "\n".join(["Tables:", "", *tables]),
                *(["\n".join(["Left out:", "", *lacking])] if lacking else []),
                *pictures,
            ]
        )

    def _write_table(self, folder: Path, name: str) -> Path:
        path = folder / f"{name}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_rows(self.tables[name], "csv", str(path))
        return path

    def _write_figure(self, folder: Path, name: str, formats: Sequence[str]) -> list[Path]:
        figure = self.figures[name]()
        paths = [folder / f"{name}.{form}" for form in formats]
        paths[0].parent.mkdir(parents=True, exist_ok=True)
        for path in paths:
            # 42: publishers refuse the outlines that matplotlib would make of letters.
            with warnings.catch_warnings(), rc_context({"pdf.fonttype": 42}):
                # A class name in letters that the font lacks is drawn as boxes; nothing that a person here can mend.
                warnings.filterwarnings("ignore", "Glyph")
                figure.savefig(path, dpi=DOTS)
        return paths


def paper_figures(runs: str | Sequence[str], split: str = "val", tracking_uri: str | None = None) -> PaperFigures:
    """The figures and tables of the action-score papers, of runs on one data set.

        figures = actionflow.paper_figures(["digits-seed-0", "digits-seed-1"])
        figures.write("paper", formats=["pdf"])
        figures.log()

    A single run has no correlations with others; runs of different data sets are refused.
    """
    wanted = [runs] if isinstance(runs, str) else list(runs)
    if not wanted:
        raise SettingsError("no run is named. Type for instance `actionflow paper-figures A B`.")
    with connect(wanted, tracking_uri=tracking_uri) as session:
        named = named_runs(session.runs)
        check_recorded(session.runs)
        for run in session.runs:
            run.check_split(split)
        ids = [run.run_id for run in named]
        comparison = compare(ids, split, tracking_uri=tracking_uri) if len(ids) > 1 else None
        found = exhibits(session, {run.run_id: run.name for run in named}, split)
    alone = [] if comparison else [f"No correlations between runs: {named[0].name} is the only one."]
    return PaperFigures(
        named,
        split,
        {**found.tables, **_tables_of(comparison)},
        {**found.figures, **({"quantile_correlation": comparison.figure} if comparison else {})},
        [*found.notes, *alone, *(comparison.notes() if comparison else [])],
        tracking_uri,
    )


def _tables_of(comparison: Comparison | None) -> dict[str, pa.Table]:
    if comparison is None:
        return {}
    return {"agreement": comparison.agreement, "quantile_correlation": comparison.curve}


def _check_formats(formats: Sequence[str]) -> None:
    for form in formats:
        if form not in FORMATS:
            raise SettingsError(f"a figure is written as {', '.join(FORMATS)}, found {form!r}.")


def _ending(name: str, figures: Mapping[str, object]) -> str:
    return ".png" if name in figures else "/"
