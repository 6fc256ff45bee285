"""Explain the failures of a recorded run: which feature or attribute goes with them, as rules with error rates."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from mlflow import MlflowClient
from PIL.Image import Image

from actionflow.analysis.failure_modes import DEPTHS, Terms, explain_groups
from actionflow.clustering import only
from actionflow.errors import DataError, SettingsError, either, nearest
from actionflow.explaining.asking import GROUPINGS, Asked, gather
from actionflow.explaining.figures import Illustrator
from actionflow.explaining.tables import members_table, modes_table
from actionflow.marking import classes_of
from actionflow.present.failures import failures_text, figure_name, sentence
from actionflow.session import Session, connect, say
from actionflow.store.showing import log_table, told
from actionflow.store.writing import RunWriter

Row = dict[str, Any]
# Figures are made of so many rules: each takes seconds.
MOST_FIGURES = 12
# Classes that are not explained are named, so many of them.
MOST_REASONS = 12
EVERY = 2**31


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """The failures of one split of a run, explained class by class, for every grouping and depth.

    - `modes` a row per leaf, `members` a row per sample, grouping and depth: the views of these names;
    - `rules` what `queries/failure_modes.sql` says of the chosen grouping and depth, `controls` what
      `queries/failure_controls.sql` says of all.
    """

    run_id: str
    run_name: str
    split: str
    grouping: str
    depth: int
    target: str
    terms: Terms
    modes: pa.Table
    members: pa.Table
    rules: pa.Table
    controls: pa.Table
    names: Mapping[int, str]
    asked: Asked = field(repr=False)
    tracking_uri: str | None = None

    @property
    def source(self) -> str:
        """What the failures are explained by."""
        return self.asked.source

    def of_class(self, name: str) -> Explanation:
        """The same with the rules of one class, by its name or number."""
        labels = {str(called): label for label, called in self.names.items()}
        labels |= {str(label): label for label in self.names}
        if name not in labels:
            raise DataError(f"run {self.run_name} has no class {name}. {nearest(name, labels)}")
        chosen = self.rules.filter(pc.equal(self.rules["label"], labels[name]))
        return Explanation(**{**vars(self), "rules": chosen})

    def classes(self) -> pa.Table:
        """A row per class of the chosen grouping and depth: its base error rate, what the tree gains, or why not."""
        rows = self._of(self.modes)
        rows = rows.filter(pc.equal(pc.fill_null(rows["leaf"], 1), 1)).sort_by("label")
        names = pa.array([self.called(label) for label in rows["label"].to_pylist()], pa.string())
        kept = ("ber", "aler", "gain", "chance_gain", "beaten", "reason")
        return pa.table({"label": rows["label"], "label_name": names, **{name: rows[name] for name in kept}})

    def called(self, label: int | None) -> str:
        """What a class is called."""
        return "all samples" if label is None else self.names.get(label, str(label))

    def sentences(self) -> list[str]:
        """Every rule in a sentence."""
        return [self.sentence(row) for row in self.rules.to_pylist()]

    def sentence(self, row: Row) -> str:
        """A rule in a sentence."""
        return sentence(row, self.called(row["label"]), self.grouping, self.target)

    def title(self) -> str:
        """What is explained."""
        what = "errors" if self.target == "error" else "high action"
        return f"{self.run_name}: {what} of {len(self.asked.sample_ids):,} {self.split} samples, by {self.grouping}"

    def text(self, k: int = 10, width: int | None = None) -> str:
        """The first k rules, what is behind them, and the controls, for a terminal."""
        columns = width or shutil.get_terminal_size(fallback=(120, 24)).columns
        return failures_text(
            self.title(), self.findings(), self.sentences()[:k], self.classes(), self.controls, columns
        )

    def findings(self) -> list[str]:
        """What was found, a sentence for each thing."""
        hold = sum(self.rules["holds"].to_pylist())
        steps = "one step" if self.depth == 1 else f"at most {self.depth} steps"
        first = (
            f"{self.rules.num_rows:,} rules of {steps} were found on one "
            f"half of the samples; {hold:,} hold on the other half, which all figures are of."
        )
        told = [f"Explained by {self.source}.", first]
        rows = [row for row in self.classes().to_pylist() if row["reason"]]
        if rows:
            reasons = [f"{row['label_name']} ({row['reason']})" for row in rows[:MOST_REASONS]]
            told.append(f"Not explained: {', '.join(reasons)}{', …' if len(rows) > MOST_REASONS else ''}.")
        return told

    def in_leaf(self, row: Row) -> pa.Table:
        """The members of a rule's leaf."""
        members = self._of(self.members)
        label = members["label"]
        of_class = pc.is_null(label) if row["label"] is None else pc.equal(label, row["label"])
        return members.filter(pc.and_(of_class, pc.equal(members["leaf"], row["leaf"])))

    def html(self, figures: Mapping[int, Image] | None = None) -> str:
        """One file that needs nothing else: rules, classes, controls, and what the rules look at."""
        from actionflow.explaining.page import failures_page

        with connect(self.run_id, tracking_uri=self.tracking_uri) as session:
            return failures_page(session, self, self.figures() if figures is None else figures).html()

    def figures(self, most: int = MOST_FIGURES) -> dict[int, Image]:
        """What the first rules look at, by rank; nothing where samples have no pictures."""
        with connect(self.run_id, tracking_uri=self.tracking_uri) as session:
            illustrator = Illustrator.of(session, self.asked, self.terms.seed)
            if illustrator is None:
                return {}
            return {
                row["mode_rank"]: illustrator.figure(self.sentence(row), row, self.in_leaf(row))
                for row in self._with_conditions().slice(0, most).to_pylist()
            }

    def _with_conditions(self) -> pa.Table:
        """The rules with their steps as programs read them, which SQL that two engines share does not return."""
        chosen = self._of(self.modes).select(["mode_rank", "conditions"])
        places = pc.index_in(self.rules["mode_rank"].combine_chunks(), chosen["mode_rank"].combine_chunks())
        return self.rules.append_column("conditions", chosen["conditions"].take(places))

    def _of(self, table: pa.Table) -> pa.Table:
        """The rows of the chosen grouping and depth."""
        grouping = pc.equal(table["grouping"].cast(pa.string()), self.grouping)
        return table.filter(pc.and_(grouping, pc.equal(table["depth"], self.depth)))

    def log(self) -> str:
        """Write views, report and figures into the run that was explained; an earlier explanation is replaced."""
        client = MlflowClient(tracking_uri=self.tracking_uri)
        name = "failure_modes" if self.split == "val" else f"failure_modes_{self.split}"
        writer = RunWriter(self.run_id, client)
        facts = {
            "source": self.source,
            "features_run": self.asked.seer.run_id if self.asked.seer else None,
            **vars(self.terms),
        }
        writer.log_failures(self.split, self.modes, self.members, **facts)
        figures = self.figures()
        ranked = {row["mode_rank"]: row for row in self.rules.to_pylist()}
        with told(client, "explanation"):
            for rank, figure in figures.items():
                client.log_image(self.run_id, figure, f"{name}/{figure_name(ranked[rank])}.png")
            log_table(
                client, self.run_id, self.rules.drop_columns(["run_id", "split", "target"]).to_pydict(), f"{name}.json"
            )
            client.log_text(self.run_id, self.html(figures), f"{name}.html")
        writer.sender.leave()
        return self.run_id


def explain(
    run: str,
    split: str = "val",
    grouping: str = "label",
    depth: int = 1,
    features: str = "auto",
    attributes: str = "",
    target: str = "error",
    high: float = 0.2,
    terms: Terms | None = None,
    tracking_uri: str | None = None,
) -> Explanation:
    """Explain when a run fails, class by class, by rules over the features of a robust model or over attributes.

        explanation = actionflow.explain("fashion", depth=3)
        explanation.rules.to_pandas()
        explanation.log()

    `grouping` label asks when samples of a class are mistaken, prediction when others are taken for it. `features` are
    those of a robust model on the same data, the run's own, those of the run of a name or id, or none; auto chooses.
    `attributes` are columns of the samples, and text for what can be read off texts. `target` action explains the share
    `high` of samples with the highest action instead of errors.
    """
    if depth not in DEPTHS:
        raise SettingsError(f"depth is {either([str(each) for each in DEPTHS])}, found {depth}.")
    if grouping not in GROUPINGS:
        raise SettingsError(f"grouping is {either(GROUPINGS)}, found {grouping}.")
    terms = terms or Terms()
    with connect(run, tracking_uri=tracking_uri) as session:
        source = only(session, run, "an explanation is")
        source.check_split(split)
        asked = gather(session, source, split, target, high, features, attributes, say)
        if grouping not in asked.classes:
            raise DataError(
                f"run {source.name} ({source.run_id[:8]}) has no {grouping} of its samples: type --grouping "
                f"{next(iter(asked.classes))}."
            )
        groups = {
            name: explain_groups(asked.attributes.values, classes, asked.failed, terms, stream=place)
            for place, (name, classes) in enumerate(asked.classes.items())
        }
        known = {"run_id": source.run_id, "split": split, "target": target}
        modes = modes_table(groups, asked.attributes.names, known, terms)
        members = members_table(groups, asked, known)
        rules, controls = _asked_of(session, modes, split, grouping, depth)
        names = classes_of(session, source)
    return Explanation(
        run_id=source.run_id,
        run_name=source.name,
        split=split,
        grouping=grouping,
        depth=depth,
        target=target,
        terms=terms,
        modes=modes,
        members=members,
        rules=rules,
        controls=controls,
        names=names,
        asked=asked,
        tracking_uri=tracking_uri,
    )


def _asked_of(session: Session, modes: pa.Table, split: str, grouping: str, depth: int) -> tuple[pa.Table, pa.Table]:
    """What the queries say of them, as they will when they are written."""
    session.engine.view_table("failure_modes", modes)
    rules = session.query("failure_modes", split=split, grouping=grouping, depth=depth, k=EVERY)
    return rules, session.query("failure_controls", split=split)
