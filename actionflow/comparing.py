"""Compare runs: how far they agree on which samples are hard, overall, in each class, and among the hardest."""

from __future__ import annotations

import re
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import pyarrow as pa
from mlflow import MlflowClient
from mlflow.entities import Metric
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NOTE
from mlflow.utils.time import get_current_time_millis
from tqdm import tqdm

from actionflow.errors import DataError, SettingsError
from actionflow.present.comparison import comparison_text
from actionflow.questions.files import Value
from actionflow.session import Session, connect
from actionflow.sources import check_recorded
from actionflow.store import layout
from actionflow.store.reading import StoredRun
from actionflow.store.showing import introduce, kept_in_a_run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIDES = ("above", "below", "within")
KIND = "comparison"
# The curve becomes a stepped metric, whose step is a whole number: the percent.
MOST_QUANTILES = 100
# MLflow takes no more metrics in one call.
METRICS_AT_ONCE = 1000
# A bar for a few pairs would be gone before it is read.
WORTH_A_BAR = 8
# MLflow's limit for a metric's name is 250, and ours has two runs in it.
LONGEST_NAME = 80
NOT_IN_A_METRIC = re.compile(r"[^\w. -]")


@dataclass(frozen=True)
class ComparedRun:
    """One of the runs that are compared, and what a person calls it: its name, with its id where that is not enough."""

    run_id: str
    name: str
    model: str | None
    dataset: str | None
    digest: str | None
    experiment_id: str


@dataclass(frozen=True)
class Comparison:
    """How far runs agree, pair by pair: what queries/run_correlation.sql and quantile_correlation.sql say of each.

    `agreement` has a row for each pair's samples together (label NULL) and one for each class, `curve` one for each
    pair and quantile; in `baseline` pairs both runs trained the same model, NULL where a run does not say which.
    """

    runs: tuple[ComparedRun, ...]
    agreement: pa.Table
    curve: pa.Table
    asked: dict[str, Value]
    tracking_uri: str | None = None

    def rows(self) -> pa.Table:
        """All numbers in one table; its column `scope` says what a row is about: overall, class or quantile."""
        scopes = ["overall" if label is None else "class" for label in self.agreement["label"].to_pylist()]
        return pa.concat_tables(
            [
                self.agreement.add_column(0, "scope", pa.array(scopes, pa.string())),
                self.curve.add_column(0, "scope", pa.array(["quantile"] * self.curve.num_rows, pa.string())),
            ],
            promote_options="default",
        )

    def text(self, width: int | None = None) -> str:
        """The paper's table, rows = pairs and columns = overall and classes, then the curve, for a terminal."""
        runs = [(run.run_id, run.name, run.model or "") for run in self.runs]
        columns = width or shutil.get_terminal_size(fallback=(120, 24)).columns
        return comparison_text(runs, self.agreement, self.curve, columns)

    def figure(self) -> Figure:
        """The curve of every pair, baselines dashed."""
        from actionflow.present.figures import quantile_correlation

        return quantile_correlation(self.curve)

    def html(self) -> str:
        """One file that needs nothing else: table, curve, and where the first pairs of runs disagree."""
        from actionflow.reporting.comparison import comparison_page

        with connect([run.run_id for run in self.runs], tracking_uri=self.tracking_uri) as session:
            return comparison_page(session, self.agreement, self.curve, str(self.asked["split"])).html()

    def notes(self) -> list[str]:
        """What was left out, and what could not be checked."""
        overall = [row for row in self.agreement.to_pylist() if row["label"] is None]
        return [*_trusted(self.runs), *(note for row in overall for note in _left_out(row))]

    def log(self, run_id: str | None = None, name: str = "") -> str:
        """Write tables, figure and curve into an MLflow run and return its id.

        The run is a new one in the experiment of the first run, unless `run_id` names one that is open already.
        """
        client = MlflowClient(tracking_uri=self.tracking_uri)
        with kept_in_a_run(client, "comparison", self.runs[0].experiment_id, run_id) as target:
            self._write(client, target, name or short(" vs ".join(run.name for run in self.runs)))
        return target

    def _write(self, client: MlflowClient, run_id: str, name: str) -> None:
        params = {"runs": ",".join(run.name for run in self.runs), **self.asked}
        introduce(client, run_id, name, params, self._tags())
        client.log_table(run_id, self.agreement.to_pydict(), "agreement.json")
        client.log_table(run_id, self.curve.to_pydict(), "quantile_correlation.json")
        # At the root: there MLflow's compare page finds pictures.
        client.log_figure(run_id, self.figure(), "quantile_correlation.png")
        client.log_text(run_id, self.html(), "comparison_report.html")
        metrics = curve_metrics(self.curve)
        for start in range(0, len(metrics), METRICS_AT_ONCE):
            client.log_batch(run_id, metrics=metrics[start : start + METRICS_AT_ONCE])

    def _tags(self) -> dict[str, str | None]:
        # Markdown: four spaces keep the table's columns.
        note = "\n".join("    " + line for line in self.text(width=160).splitlines())
        return {**tags_of(KIND, self.runs), MLFLOW_RUN_NOTE: note}


def tags_of(kind: str, runs: Sequence[ComparedRun]) -> dict[str, str | None]:
    """The tags of a run that keeps an answer about others."""
    return {
        layout.TAG_KIND: kind,
        layout.TAG_DATASET: runs[0].dataset,
        layout.TAG_DIGEST: runs[0].digest,
        layout.TAG_COMPARED: ",".join(run.run_id for run in runs),
    }


def compare(
    runs: str | Sequence[str],
    split: str = "val",
    quantiles: int = 20,
    side: str = "above",
    least: int = 10,
    tracking_uri: str | None = None,
) -> Comparison:
    """Compare every pair of runs: the correlation of action, overall, per class, and above each quantile of it.

        comparison = actionflow.compare(["digits-seed-0", "digits-seed-1"])
        comparison.agreement.to_pandas()
        comparison.curve.to_pandas()

    `side` is above, below or within (bins between quantiles); a set of fewer than `least` samples has no correlation.
    """
    _check(quantiles, side, least)
    wanted = [runs] if isinstance(runs, str) else list(runs)
    if not wanted:
        raise SettingsError("nothing to compare: no run is named. Type for instance `actionflow compare A B`.")
    with connect(wanted, tracking_uri=tracking_uri) as session:
        compared = named_runs(session.runs)
        check_recorded(session.runs)
        _check_runs(compared, session.runs, split)
        pairs = _progress(list(combinations(compared, 2)))
        answers = [_compare_pair(session, a, b, split, quantiles, side, least) for a, b in pairs]
    return Comparison(
        compared,
        pa.concat_tables([agreement for agreement, _ in answers]),
        pa.concat_tables([curve for _, curve in answers]),
        {"split": split, "quantiles": quantiles, "side": side, "least": least},
        tracking_uri,
    )


def curve_metrics(curve: pa.Table) -> list[Metric]:
    """The curve as stepped metrics, one for each pair, step = percent; where there is no number there is no step."""
    now = get_current_time_millis()
    return [
        Metric(metric_name(row["name_a"], row["name_b"]), row["pearson"], now, round(100 * row["quantile"]))
        for row in curve.to_pylist()
        if row["pearson"] is not None
    ]


def metric_name(name_a: str, name_b: str) -> str:
    """The metric of a pair, in the characters that MLflow takes.

    >>> metric_name("cnn, seed/0", "cnn-1")
    'quantile_correlation/cnn_ seed_0 vs cnn-1'
    """
    return f"quantile_correlation/{metric_words(name_a)} vs {metric_words(name_b)}"


def _compare_pair(
    session: Session, a: ComparedRun, b: ComparedRun, split: str, quantiles: int, side: str, least: int
) -> tuple[pa.Table, pa.Table]:
    pair: dict[str, Value] = {"run_a": a.run_id, "run_b": b.run_id, "split": split}
    agreement = session.query("run_correlation", **pair)
    curve = session.query("quantile_correlation", **pair, quantiles=quantiles, side=side, least=least)
    return _with_names(agreement, a, b), _with_names(curve, a, b)


def _with_names(table: pa.Table, a: ComparedRun, b: ComparedRun) -> pa.Table:
    """Say whom a pair's rows are about; and count in plain integers, since SQL's sums of counts come as decimals."""
    said = {
        "name_a": (a.name, pa.string()),
        "name_b": (b.name, pa.string()),
        "model_a": (a.model, pa.string()),
        "model_b": (b.model, pa.string()),
        "baseline": (a.model == b.model if a.model and b.model else None, pa.bool_()),
    }
    for place, (column, (value, kind)) in enumerate(said.items(), start=2):
        table = table.add_column(place, column, pa.array([value] * table.num_rows, kind))
    for place, field in enumerate(table.schema):
        if field.name in ("samples", "left_out", "not_finite"):
            table = table.set_column(place, field.name, table[field.name].cast(pa.int64()))
    return table


def named_runs(runs: Sequence[StoredRun]) -> tuple[ComparedRun, ...]:
    """A name that two runs share, or that is too long to read, is told with the start of the id."""
    bearers = Counter(metric_words(run.name) for run in runs)
    return tuple(_named_run(run, alone=bearers[metric_words(run.name)] == 1) for run in runs)


def _named_run(run: StoredRun, alone: bool) -> ComparedRun:
    tags = run.run.data.tags
    plain = alone and len(run.name) <= LONGEST_NAME
    return ComparedRun(
        run_id=run.run_id,
        name=run.name if plain else f"{short(run.name)} {run.run_id[:8]}",
        # Own loops have no tag of ours, but people log the parameter.
        model=tags.get(layout.TAG_MODEL) or run.run.data.params.get("model"),
        dataset=tags.get(layout.TAG_DATASET),
        digest=tags.get(layout.TAG_DIGEST),
        experiment_id=run.run.info.experiment_id,
    )


def _check(quantiles: int, side: str, least: int) -> None:
    if not 1 <= quantiles <= MOST_QUANTILES:
        raise SettingsError(f"quantiles is a number from 1 to {MOST_QUANTILES}, found {quantiles}.")
    if side not in SIDES:
        raise SettingsError(f"side is one of {', '.join(SIDES)}, found {side!r}.")
    if least < 2:
        raise SettingsError(f"least is at least 2, found {least}: one sample does not correlate.")


def _check_runs(compared: Sequence[ComparedRun], stored: Sequence[StoredRun], split: str) -> None:
    if len(compared) < 2:
        raise SettingsError(
            f"a comparison needs two runs, found one: {compared[0].name} ({compared[0].run_id[:8]}). `actionflow runs` "
            "lists the others."
        )
    _check_data(compared)
    for run in stored:
        run.check_split(split)


def _check_data(compared: Sequence[ComparedRun]) -> None:
    """Ids name the same samples only within one data set."""
    known = [run for run in compared if run.digest]
    for run in known[1:]:
        if run.digest != known[0].digest:
            raise DataError(
                f"runs of different data sets do not compare: {_data_of(known[0])}, {_data_of(run)}. `actionflow runs` "
                "lists which run was trained on what."
            )


def _data_of(run: ComparedRun) -> str:
    return f"{run.name} has {run.dataset or 'data'} with digest {run.digest}"


def _trusted(runs: Sequence[ComparedRun]) -> list[str]:
    silent = [run.name for run in runs if not run.digest]
    if not silent or len(silent) == len(runs):
        return []
    return [f"{', '.join(silent)}: not known on which data; equal sample ids are taken for the same samples."]


def _left_out(row: dict[str, Value]) -> list[str]:
    pair = f"{row['name_a']} vs {row['name_b']}"
    told = []
    if row["left_out"]:
        told.append(f"{pair}: {row['left_out']:,} samples left out, which only one of them recorded.")
    if row["not_finite"]:
        told.append(f"{pair}: {row['not_finite']:,} samples left out, whose action is not finite in one of them.")
    if not row["samples"]:
        told.append(f"{pair}: no sample is left to compare.")
    return told


def _progress(pairs: list[tuple[ComparedRun, ComparedRun]]) -> tqdm[tuple[ComparedRun, ComparedRun]]:
    silent = len(pairs) < WORTH_A_BAR or None
    return tqdm(pairs, "comparing", leave=False, disable=silent, file=sys.stderr)


def metric_words(name: str) -> str:
    """A name in the characters that MLflow takes for a metric, and every file system for a file."""
    return NOT_IN_A_METRIC.sub("_", name)


def short(text: str) -> str:
    """As much of a name as a person reads."""
    return text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 1] + "…"
