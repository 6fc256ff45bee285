"""One figure for each rule, as in the paper: what its features look at, and failures that it holds for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from PIL.Image import Image

from actionflow.errors import ActionFlowError
from actionflow.explaining.asking import NO_CLASS, Asked
from actionflow.explaining.seeing import Pictures, Seen, see
from actionflow.present.pages.thumbnails import opened
from actionflow.present.rule_figures import Row, heated, rule_figure
from actionflow.reporting.samples import pictures_of
from actionflow.session import Session, say
from actionflow.store.reading import StoredRun

# Pictures in a row.
SHOWN = 8


@dataclass
class Illustrator:
    """Draws rules of one run; it needs a session that has the run open, for its pictures."""

    session: Session
    run: StoredRun
    asked: Asked
    seed: int
    model: Any = None

    @classmethod
    def of(cls, session: Session, asked: Asked, seed: int) -> Illustrator | None:
        """An illustrator; None where samples have no pictures. A model that cannot be looked into is told of."""
        run = session.runs[0]
        first = _pictures(session, run, asked.sample_ids[:1])
        if not len(first):
            return None
        model = None
        if asked.seer is not None:
            from actionflow.explaining.models import load_model  # torch takes seconds

            try:
                model = load_model(asked.seer, first.shape[1], (first.shape[2], first.shape[3]))
            except ActionFlowError as error:
                say(f"The figures show no features: {error}")
        return cls(session, run, asked, seed, model)

    def figure(self, title: str, rule: Mapping[str, Any], leaf: pa.Table) -> Image:
        """What a rule's features look at among the samples of its class, and failures of its leaf at random."""
        rows: list[Row] = []
        for number, name in {step["feature"]: step["name"] for step in rule["conditions"]}.items():
            rows += self._looks_at(number, name, rule)
        failures = leaf.filter(leaf["failed"])["sample_id"].to_numpy()
        draw = np.random.default_rng([self.seed, len(failures)])
        chosen = np.sort(draw.permutation(failures)[:SHOWN])
        rows.append(
            Row(f"failures where the rule holds, {len(chosen)} of {len(failures):,} at random", self._of(chosen))
        )
        return rule_figure(title, rows)

    def _looks_at(self, number: int, name: str, rule: Mapping[str, Any]) -> list[Row]:
        classes = self.asked.classes[rule["grouping"]]
        members = np.flatnonzero(classes == (NO_CLASS if rule["label"] is None else rule["label"]))
        values = self.asked.attributes.values[members, number]
        most = members[np.argsort(-values, kind="stable")[:SHOWN]]
        pictures = self._of(self.asked.sample_ids[most])
        rows = [Row(f"{name}: where it is highest", pictures)]
        if self.model is not None and number < self.asked.seen:
            seen: Seen = see(self.model, number, pictures)
            rows.append(Row("what of them it sees", heated(seen.pictures, seen.heat)))
            rows.append(Row("changed so that it is higher still", seen.attacked))
        return rows

    def _of(self, sample_ids: NDArray[np.int64]) -> Pictures:
        return _pictures(self.session, self.run, sample_ids)


def _pictures(session: Session, run: StoredRun, sample_ids: NDArray[np.int64]) -> Pictures:
    """The pictures (n, channels, height, width) of samples, as the model saw them."""
    found = pictures_of(session, run, sample_ids.tolist())
    arrays = [np.asarray(opened(found[each])) for each in sample_ids.tolist() if each in found]
    if not arrays:
        return np.zeros((0, 1, 1, 1), np.uint8)
    stacked = np.stack(arrays)
    return stacked[:, None] if stacked.ndim == 3 else stacked.transpose(0, 3, 1, 2)
