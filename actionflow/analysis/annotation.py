"""What several annotators say of failure scenarios, as one verdict each, and how far they agree."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any

from actionflow.store.scenario_labels import CLASS, FINE

Row = Mapping[str, Any]
# What an annotator made of one sample: its class, or nothing.
Vote = int | None


@dataclass(frozen=True)
class Verdict:
    """What a scenario is: a failure with one label, or not one."""

    scenario: int
    label: int | None  # the majority of its samples' labels
    labelled: int  # samples that have a label
    wrong: int  # of them, samples that the classifier takes for something else
    is_failure: bool
    agreement: tuple[float, ...] = ()  # for each sample, the share of annotators who said what most of them said
    annotators: tuple[str, ...] = ()

    @property
    def told(self) -> str:
        """Failure, fine, or not one class."""
        return "failure" if self.is_failure else "not a failure" if self.labelled else "not one class"


@dataclass(frozen=True)
class Progress:
    """How far labelling is."""

    scenarios: int
    unlabelled: tuple[int, ...]
    by: Mapping[str, int] = field(default_factory=dict)

    @property
    def told(self) -> str:
        """In words."""
        done = self.scenarios - len(self.unlabelled)
        by = ", ".join(f"{name} {count}" for name, count in self.by.items())
        return f"{done} of {self.scenarios} scenarios are labelled" + (f" ({by})" if by else "")


def progress(scenarios: Sequence[Row], labels: Sequence[Row]) -> Progress:
    """Which scenarios nobody has said anything of, and how many each annotator has done."""
    numbers = [row["scenario"] for row in scenarios]
    done = {(row["labelled_by"], row["scenario"]) for row in labels if row["scenario"] in numbers}
    labelled = {scenario for _, scenario in done}
    unlabelled = tuple(number for number in numbers if number not in labelled)
    return Progress(len(numbers), unlabelled, dict(sorted(Counter(name for name, _ in done).items())))


def judged_by_people(scenarios: Sequence[Row], labels: Sequence[Row], rho: float) -> list[Verdict]:
    """The majority of each sample's annotators, then of each scenario's samples; without a word there is no verdict."""
    verdicts = []
    for scenario in scenarios:
        votes = _votes(scenario, [row for row in labels if row["scenario"] == scenario["scenario"]])
        if votes:
            verdicts.append(_verdict(scenario, votes, rho))
    return verdicts


def judged_by_sources(scenarios: Sequence[Row], rho: float) -> list[Verdict]:
    """Every sample gets the majority label of the training samples around which its scenario was found."""
    votes = {each["scenario"]: [each["source_label"]] * len(each["sample_predictions"]) for each in scenarios}
    return [_verdict(each, {"source": votes[each["scenario"]]}, rho) for each in scenarios]


def _votes(scenario: Row, labels: Sequence[Row]) -> dict[str, list[Vote]]:
    """For each annotator, what each sample was called; what they said of a single sample goes before the whole."""
    predictions = scenario["sample_predictions"]
    found: dict[str, list[Vote]] = {}
    for row in sorted(labels, key=lambda row: row["sample"] is not None):
        called = found.setdefault(row["labelled_by"], [None] * len(predictions))
        places = range(len(predictions)) if row["sample"] is None else [row["sample"] - 1]
        for place in places:
            called[place] = _vote(row, predictions[place])
    return found


def _vote(row: Row, prediction: int) -> Vote:
    if row["answer"] == FINE:
        return prediction
    return int(row["label"]) if row["answer"] == CLASS else None


def _verdict(scenario: Row, votes: Mapping[str, Sequence[Vote]], rho: float) -> Verdict:
    predictions = scenario["sample_predictions"]
    majorities = [_majority([called[place] for called in votes.values()]) for place in range(len(predictions))]
    labelled = [(vote, says) for (vote, _), says in zip(majorities, predictions, strict=True) if vote is not None]
    wrong = sum(vote != says for vote, says in labelled)
    label = _most([vote for vote, _ in labelled])
    return Verdict(
        scenario=scenario["scenario"],
        label=label,
        labelled=len(labelled),
        wrong=wrong,
        is_failure=label is not None and wrong > rho * len(labelled),
        agreement=tuple(share for _, share in majorities),
        annotators=tuple(votes),
    )


def _majority(votes: Sequence[Vote]) -> tuple[Vote, float]:
    """What most annotators say and their share; nothing where two answers are even."""
    (first, count), *others = Counter(votes).most_common()
    is_even = bool(others) and others[0][1] == count
    return (None if is_even else first), count / len(votes)


def _most(labels: Sequence[int]) -> int | None:
    """The most frequent label; of labels that are even the smallest."""
    counts = Counter(labels)
    return min(counts, key=lambda label: (-counts[label], label)) if counts else None


def agreement(verdicts: Sequence[Verdict]) -> dict[str, tuple[float, float | None]]:
    """The paper's figure 6: the mean share of annotators in the majority, and its standard error, by kind."""
    groups = {
        "failures": [share for each in verdicts if each.is_failure for share in each.agreement],
        "others": [share for each in verdicts if not each.is_failure for share in each.agreement],
        "all": [share for each in verdicts for share in each.agreement],
    }
    return {
        name: (fmean(shares), stdev(shares) / math.sqrt(len(shares)) if len(shares) > 1 else None)
        for name, shares in groups.items()
        if shares
    }
