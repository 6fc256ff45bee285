"""The page of a comparison: how far runs agree, and the samples that are hard for one and easy for another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from actionflow.present.pages import plots
from actionflow.present.pages.page import Group, Page, Points, Rows, Sample, Section, Shown, Strip
from actionflow.present.pages.thumbnails import Thumbnails, thumbnails
from actionflow.reporting.asking import Answer, ask
from actionflow.reporting.findings import MOST_CLASSES, MOST_POINTS, NOBODY
from actionflow.reporting.samples import LONGEST_IN_A_LIST, Described, cut, pictures_of
from actionflow.reporting.sections import PICTURE_ROOM
from actionflow.session import Session

Row = dict[str, Any]

# More pairs are not looked at one by one: the table and the curve have them all.
MOST_PAIRS = 4
DISAGREEMENTS = 8
# Lines of the table beyond those are not read; agreement.json has them all.
MOST_ROWS = 120
MOST_LINES = 12


@dataclass(frozen=True)
class Pair:
    """Two runs and the samples that both ranked."""

    number: int
    run_a: str
    run_b: str
    name_a: str
    name_b: str
    ranks: pa.Table
    disagreement: Answer

    @property
    def title(self) -> str:
        """What the pair is called."""
        return f"{self.name_a} and {self.name_b}"


def comparison_page(session: Session, agreement: pa.Table, curve: pa.Table, split: str) -> Page:
    """Ask what the pairs' figures need, and lay out the page; the tables have been asked for already."""
    overall = [row for row in agreement.to_pylist() if row["label"] is None]
    first = overall[0]["run_a"]
    ranks = ask(session, first, "action_scores", split=split)
    scores = ask(session, first, "score_vs_score", split=split, score_x="action", score_y="action")
    pairs = [_pair(session, row, place, ranks, scores, split) for place, row in enumerate(overall[:MOST_PAIRS])]
    described = Described.of(session, first)
    source = next(run for run in session.runs if run.run_id == first)
    pictures = thumbnails(pictures_of(session, source, _by_importance(pairs)), PICTURE_ROOM)
    shown = sorted({each for pair in pairs for each in pair.ranks["sample_id"].to_pylist()})
    clouds = [_cloud(pair, shown, MOST_POINTS // len(pairs)) for pair in pairs]
    names = _names(described, agreement)
    return Page(
        title=f"How far {len(session.runs)} runs agree on what is hard",
        facts=_facts(overall, split),
        sections=[
            _agreement(agreement, first, split),
            _curve(curve, overall),
            *(
                _disagreement(pair, cloud, ranks, described, pictures, names)
                for pair, cloud in zip(pairs, clouds, strict=True)
            ),
        ],
        pictures=pictures,
        shown=described.shown(shown) if described.table.num_rows else Shown(shown),
        points=[_points(pair, cloud, scores) for pair, cloud in zip(pairs, clouds, strict=True)],
        classes=names,
    )


def _pair(session: Session, row: Row, place: int, ranks: Answer, scores: Answer, split: str) -> Pair:
    ids = {"run_a": row["run_a"], "run_b": row["run_b"]}
    return Pair(
        number=place,
        name_a=row["name_a"],
        name_b=row["name_b"],
        ranks=_both(ranks.table, scores.table, row["run_a"], row["run_b"]),
        disagreement=ask(session, row["run_a"], "disagreement", **ids, split=split, k=DISAGREEMENTS),
        **ids,
    )


def _both(ranks: pa.Table, scores: pa.Table, run_a: str, run_b: str) -> pa.Table:
    """The samples that both runs have, with what each run says of them side by side."""

    def of(run: str, table: pa.Table, columns: Sequence[str], ending: str) -> pa.Table:
        some = table.filter(pc.equal(table["run_id"].cast(pa.string()), run)).select(["sample_id", *columns])
        return some.rename_columns(["sample_id", *(f"{column}{ending}" for column in columns)])

    sides = [
        of(run, ranks, ["action", "hardness_rank"], ending).join(
            of(run, scores, ["prediction", *(["label"] if ending == "_a" else [])], ending), "sample_id"
        )
        for run, ending in ((run_a, "_a"), (run_b, "_b"))
    ]
    joined = sides[0].join(sides[1], "sample_id", join_type="inner").sort_by("sample_id")
    return joined.filter(pc.and_(pc.is_finite(joined["action_a"]), pc.is_finite(joined["action_b"])))


def _cloud(pair: Pair, shown: Sequence[int], most: int) -> plots.Cloud:
    table = pair.ranks
    rank_a, rank_b = (table[f"hardness_rank_{side}"].to_numpy().astype(np.float32) for side in "ab")
    places = np.searchsorted(np.array(shown, np.int64), table["sample_id"].to_numpy())
    columns: dict[str, NDArray[Any]] = {
        "x": rank_a,
        "y": rank_b,
        "gap": np.abs(rank_a - rank_b),
        "place": places.astype(np.int32),
        "label": _numbers(table["label_a"]),
        **{f"prediction_{side}": _numbers(table[f"prediction_{side}"]) for side in "ab"},
        **{f"action_{side}": table[f"action_{side}"].to_numpy().astype(np.float32) for side in "ab"},
    }
    # Those on which the runs differ most are drawn in any case.
    chosen = np.sort(np.argsort(-columns["gap"], kind="stable")[:most])
    return plots.cloud(
        f"pair-{pair.number}",
        {name: values[chosen] for name, values in columns.items()},
        np.full(len(chosen), NOBODY, np.int8),
    )


def _points(pair: Pair, cloud: plots.Cloud, scores: Answer) -> Points:
    facts = []
    if scores.table["label"].null_count < scores.table.num_rows:
        facts.append(("label", "label", "class"))
    if scores.table["prediction"].null_count < scores.table.num_rows:
        facts += [(f"by {pair.name_a}", "prediction_a", "class"), (f"by {pair.name_b}", "prediction_b", "class")]
    facts += [("action, first run", "action_a", "number"), ("action, second run", "action_b", "number")]
    facts += [("rank, first run", "x", "count"), ("rank, second run", "y", "count")]
    return Points(cloud.name, cloud.source_names, facts, order="gap")


def _agreement(agreement: pa.Table, first: str, split: str) -> Section:
    rows = _shown_rows(agreement.to_pylist())
    heads = ["pair", "class", "samples", "Pearson", "95 % interval", "Spearman", "95 % interval"]
    example = agreement.to_pylist()[0]
    asked = Answer(
        "run_correlation", {"run_a": example["run_a"], "run_b": example["run_b"], "split": split}, None, first
    )
    notes = [f"The first {len(rows):,} of {agreement.num_rows:,} rows; `agreement.json` has all."]
    return Section(
        title="Agreement in each class",
        words="Correlation of action between two runs, over all their samples and in each class.",
        rows=Rows(heads, [_line(row) for row in rows]),
        notes=notes if len(rows) < agreement.num_rows else (),
        questions=[asked.question()],
    )


def _shown_rows(rows: list[Row]) -> list[Row]:
    """Of every pair the row of all samples; the classes of the first pairs, as far as somebody reads."""
    return sorted(rows[:MOST_ROWS] + [row for row in rows[MOST_ROWS:] if row["label"] is None], key=_pair_of(rows))


def _pair_of(rows: list[Row]) -> Any:
    order = {pair: place for place, pair in enumerate(dict.fromkeys((row["run_a"], row["run_b"]) for row in rows))}
    return lambda row: order[row["run_a"], row["run_b"]]


def _line(row: Row) -> list[str]:
    name = "all" if row["label"] is None else str(row["label_name"] or row["label"])
    measured = [
        cell
        for measure in ("pearson", "spearman")
        for cell in (_correlation(row[measure]), _interval(row[f"{measure}_low"], row[f"{measure}_high"]))
    ]
    return [f"{row['name_a']} and {row['name_b']}", name, f"{row['samples']:,}", *measured]


def _curve(curve: pa.Table, overall: Sequence[Row]) -> Section:
    few = {(row["run_a"], row["run_b"]) for row in overall[:MOST_LINES]}
    rows = [row for row in curve.to_pylist() if (row["run_a"], row["run_b"]) in few]
    first = rows[0]
    asked = Answer(
        "quantile_correlation",
        {"run_a": first["run_a"], "run_b": first["run_b"], "split": first["split"], "side": first["side"]},
        None,
        first["run_a"],
    )
    notes = [f"The first {MOST_LINES} of {len(overall):,} pairs; `quantile_correlation.png` has all."]
    return Section(
        title="Agreement among the hardest",
        words="Correlation of action among the samples beyond each quantile of the first. Dashed: one model twice.",
        figure=plots.quantile_curve(pa.Table.from_pylist(rows, schema=curve.schema)),
        notes=notes if len(overall) > MOST_LINES else (),
        questions=[asked.question()],
    )


def _disagreement(
    pair: Pair, cloud: plots.Cloud, ranks: Answer, described: Described, pictures: Thumbnails, names: dict[int, str]
) -> Section:
    rows = pair.disagreement.rows()
    texts = described.some(row["sample_id"] for row in rows)
    strips = [
        Strip(
            f"hard for {name}, easy for {other}",
            [_sample(row, pictures, texts, names) for row in rows if row["harder_for"] == run],
        )
        for run, name, other in ((pair.run_a, pair.name_a, pair.name_b), (pair.run_b, pair.name_b, pair.name_a))
    ]
    drawn = sum(len(source.data["x"]) for source in cloud.sources.values())
    note = f"The {drawn:,} of {pair.ranks.num_rows:,} samples are drawn on which they differ most."
    return Section(
        title=pair.title,
        words="The rank of every sample in both runs; far from the diagonal are those that are hard for one alone.",
        figure=plots.scatter(
            cloud,
            f"rank in {plots.plain(plots.short(pair.name_a, 60))} (1 is the hardest)",
            f"rank in {plots.plain(plots.short(pair.name_b, 40))} (1 is the hardest)",
            logarithmic=False,
        ),
        points=cloud.name,
        groups=[Group("", "", strips)],
        notes=[note] if drawn < pair.ranks.num_rows else (),
        questions=[ranks.question(), pair.disagreement.question()],
    )


def _sample(row: Row, pictures: Thumbnails, texts: dict[int, dict[str, str]], names: dict[int, str]) -> Sample:
    number = row["sample_id"]
    facts = []
    if row["label"] is not None:
        facts.append(("label", names.get(row["label"], str(row["label"]))))
    if row["prediction_a"] is not None and row["prediction_b"] is not None:
        taken = [names.get(row[f"prediction_{side}"], str(row[f"prediction_{side}"])) for side in "ab"]
        facts.append(("predicted", " / ".join(taken)))
    facts.append(("action", f"{row['action_a']:.3g} / {row['action_b']:.3g}"))
    facts.append(("harder than", f"{100 * row['hardness_a']:.0f} % / {100 * row['hardness_b']:.0f} %"))
    written = [("", cut(text, LONGEST_IN_A_LIST)) for text in texts.get(number, {}).values() if text]
    return Sample(number, pictures.cells.get(number), [*facts, ("sample", str(number))], written)


def _by_importance(pairs: Sequence[Pair]) -> list[int]:
    """First the samples in the lists, then those on which the runs differ most."""
    listed = [number for pair in pairs for number in pair.disagreement.table["sample_id"].to_pylist()]
    for pair in pairs:
        gap = np.abs(pair.ranks["hardness_rank_a"].to_numpy() - pair.ranks["hardness_rank_b"].to_numpy())
        listed += pair.ranks["sample_id"].to_numpy()[np.argsort(-gap, kind="stable")].tolist()
    return listed


def _names(described: Described, agreement: pa.Table) -> dict[int, str]:
    rows = agreement.to_pylist()
    known = {row["label"]: str(row["label_name"] or row["label"]) for row in rows if row["label"] is not None}
    return {**known, **described.names()}


def _facts(overall: Sequence[Row], split: str) -> list[tuple[str, str]]:
    runs = {row[f"run_{side}"]: row[f"name_{side}"] for row in overall for side in "ab"}
    told = ", ".join(f"{name} ({run[:8]})" for run, name in list(runs.items())[:MOST_CLASSES])
    return [("runs", told), ("split", split), ("pairs", f"{len(overall):,}")]


def _numbers(column: pa.ChunkedArray) -> NDArray[np.int32]:
    return np.asarray(pc.fill_null(column, NOBODY).to_numpy(), np.int32)


def _correlation(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:.2f} to {high:.2f}"
