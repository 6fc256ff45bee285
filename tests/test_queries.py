"""The files in queries/: each says what it does, and on data that sums in the head does it."""

from __future__ import annotations

import math
import re

import duckdb
import pyarrow as pa
import pytest

from actionflow.errors import QueryError
from actionflow.questions import files
from actionflow.questions.engine import Engine
from actionflow.store import schema

NAN, INF = math.nan, math.inf
EMPTY = {
    "runs": schema.RUNS.empty_table(),
    "dynamics": schema.DYNAMICS.empty_table(),
    "scores": schema.SCORES.empty_table(),
    "samples": schema.SAMPLES.empty_table(),
    "features": schema.features_schema(2).empty_table(),
    "outputs": schema.OUTPUTS.empty_table(),
    "audits": schema.AUDITS.empty_table(),
    "failure_modes": schema.FAILURE_MODES.empty_table(),
    "scenarios": schema.scenarios_schema(2).empty_table(),
    "scenario_labels": schema.SCENARIO_LABELS.empty_table(),
}
ALL_SCORES = [
    *("action", "action_mean", "action_variance", "last_loss", "entropy", "confidence", "variability"),
    *("correctness", "aum", "forgetting", "el2n", "vog", "vog_early", "vog_late", "grand"),
]


def table(of, rows, **everywhere):
    """A table of a schema from rows that give only the columns that matter; the others are null."""
    return pa.Table.from_pylist([{**everywhere, **row} for row in rows], schema=of)


def scores(*rows, **everywhere):
    """Rows of the view `scores`, of run a and split val unless they say otherwise."""
    return table(schema.SCORES, rows, **{"run_id": "a", "split": "val", "epochs_seen": 1, **everywhere})


def actions(run_id="a", **samples):
    """Rows of `scores` from the actions of samples named s0, s1, …"""
    return scores(*({"sample_id": int(name[1:]), "action": value} for name, value in samples.items()), run_id=run_id)


def losses(run_id="a", split="val", **samples):
    """Rows of `dynamics` from the losses of samples named s0, s1, …, epoch by epoch."""
    rows = [
        {"sample_id": int(name[1:]), "epoch": n, "loss": x}
        for name, fate in samples.items()
        for n, x in enumerate(fate)
    ]
    return table(schema.DYNAMICS, rows, run_id=run_id, split=split)


def trainings(*rows):
    """Rows of the view `runs`, all on one data set unless they say otherwise."""
    return table(schema.RUNS, rows, dataset="digits", dataset_digest="d1", params=[], metrics=[])


def class_names(*names, digest="d1"):
    """Rows of `samples`: one sample of each class."""
    rows = [{"sample_id": n, "label": n, "label_name": name} for n, name in enumerate(names)]
    return table(schema.SAMPLES, rows, dataset="digits", digest=digest, part="test")


def answer(name, views, parameters):
    """What a query file says of these views; those not given are empty."""
    engine = Engine()
    try:
        for view, content in {**EMPTY, **views}.items():
            engine.view_table(view, content)
        return engine.ask_file(files.load(name), **parameters)
    finally:
        engine.close()


def ask(name, parameters=None, /, **views):
    """The rows that a query file gives of views; a view may be given as several tables."""
    whole = {
        view: pa.concat_tables(given) if isinstance(given, (list, tuple)) else given for view, given in views.items()
    }
    rows = answer(name, whole, parameters or {}).to_pylist()
    # A curriculum's rows come in any order; their position is what counts.
    return sorted(rows, key=lambda row: row["position"]) if name == "curriculum" else rows


def pick(rows, *columns):
    """Some columns of the rows, as tuples; the bare values if it is one column."""
    found = [tuple(row[column] for column in columns) for row in rows]
    return [row[0] for row in found] if len(columns) == 1 else found


# The house is tidy


def header(name):
    return [line for line in files.load(name).sql.split("\n\n")[0].splitlines() if line.startswith("--")]


def block(name, word):
    """What the header says after a word, up to the next word or the end of its indented lines."""
    lines, inside = [], False
    for line in header(name):
        if line.startswith(f"-- {word} "):
            inside = True
        elif inside and not line.startswith("--          "):
            break
        if inside:
            lines.append(line[12:].strip())
    return lines


def documented_columns(name):
    lines = block(name, "returns")
    end = next(n for n, line in enumerate(lines) if not line.endswith(","))
    return " ".join(lines[: end + 1]).split(", "), lines[end + 1 :]


def any_parameters(name):
    """A value for each required parameter, so that the query can be asked."""
    required = [p.name for p in files.load(name).parameters if p.required]
    return {each: 0 if each == "sample_id" else "a" for each in required}


every_query = pytest.mark.parametrize("name", files.names())


def test_all_questions_are_there():
    assert set(files.names()) >= {
        *("scores", "action_scores", "hardest", "easiest", "loss_curves", "class_difficulty", "confusion"),
        *("accuracy_by_score", "score_vs_score", "cartography", "aum", "forgetting", "el2n", "run_correlation"),
        *("quantile_correlation", "agreement_matrix", "disagreement", "stability", "label_suspects", "neighbours"),
        *("curriculum", "runs", "sample_curves", "descriptions", "extremes", "class_size_vs_action"),
        *("action_entropy_correlation", "hard_words"),
    }


@every_query
def test_a_query_is_one_statement(name):
    assert len(duckdb.extract_statements(files.load(name).sql)) == 1


@every_query
def test_the_summary_is_one_sentence(name):
    summary = files.load(name).summary
    assert summary[0].isupper()
    assert summary.endswith(".")
    assert len(summary) <= 117
    assert header(name)[1] == "--"


@every_query
def test_every_parameter_is_documented_and_every_documented_one_is_used(name):
    query = files.load(name)
    (statement,) = duckdb.extract_statements(query.sql)
    assert {parameter.name for parameter in query.parameters} == set(statement.named_parameters)
    assert all(parameter.meaning for parameter in query.parameters)


@every_query
def test_the_header_names_the_views_that_are_read(name):
    said = set(re.findall(r"(\w+) \(", " ".join(block(name, "reads"))))
    body = [line for line in files.load(name).sql.splitlines() if not line.startswith("--")]
    assert said == set(re.findall(r"\b(?:from|join) (\w+)", " ".join(body))) & set(EMPTY)


@every_query
def test_the_header_names_columns_that_the_views_have(name):
    for view, columns in re.findall(r"(\w+) \(([^)]*)\)", " ".join(block(name, "reads"))):
        listed = [column for column in columns.split(", ") if not column.startswith("and the ")]
        assert set(listed) <= set(EMPTY[view].column_names)


@every_query
def test_empty_views_give_the_documented_columns(name):
    columns, grain = documented_columns(name)
    assert answer(name, {}, any_parameters(name)).column_names == columns
    assert grain, "the line after the columns says what one row is"


# Lists of samples


def test_action_scores_rank_a_stubborn_sample_above_a_learned_one():
    rows = ask("action_scores", dynamics=losses(s1=[2.0, 0.5, 0.0], s2=[2.0, 2.0, 2.0]))
    assert pick(rows, "sample_id", "action", "epochs_seen", "hardness_rank") == [(2, 6.0, 3, 1), (1, 2.5, 3, 2)]


def test_action_scores_skip_the_burn_in():
    rows = ask("action_scores", {"burn_in": 1}, dynamics=losses(s1=[9.0, 0.5], s2=[0.0, 1.0]))
    assert pick(rows, "sample_id", "action") == [(2, 1.0), (1, 0.5)]


def test_action_scores_put_a_broken_sample_first_and_ties_side_by_side():
    rows = ask("action_scores", dynamics=losses(s1=[1.0], s2=[NAN], s3=[1.0]))
    assert pick(rows, "sample_id", "hardness_rank") == [(2, 1), (1, 2), (3, 2)]


def test_hardest_lists_k_of_each_run_and_breaks_ties_by_sample():
    rows = ask("hardest", {"k": 2}, scores=[actions("a", s1=3.0, s0=3.0, s2=5.0, s3=1.0), actions("b", s7=1.0)])
    assert pick(rows, "run_id", "hardness_rank", "sample_id") == [("a", 1, 2), ("a", 2, 0), ("b", 1, 7)]


def test_hardest_shows_what_is_not_a_number_first():
    rows = ask("hardest", {"k": 2}, scores=actions(s0=1.0, s1=INF, s2=NAN))
    assert pick(rows, "sample_id") == [2, 1]


CLASSES = scores(
    {"sample_id": 0, "label": 1, "action": 4.0, "correct": True, "prediction": 1},
    {"sample_id": 1, "label": 0, "action": 1.0, "correct": True, "prediction": 0},
    {"sample_id": 2, "label": 1, "action": 6.0, "correct": False, "prediction": 0},
    {"sample_id": 3, "label": 0, "action": 3.0, "correct": True, "prediction": 0},
)


def test_hardest_and_easiest_of_each_class():
    hardest = ask("hardest", {"k": 1, "per_class": 1}, scores=CLASSES)
    easiest = ask("easiest", {"k": 1}, scores=CLASSES)
    assert pick(hardest, "label", "sample_id", "action") == [(0, 3, 3.0), (1, 2, 6.0)]
    assert pick(easiest, "label", "sample_id", "action") == [(0, 1, 1.0), (1, 0, 4.0)]


def test_easiest_of_a_run_never_shows_what_is_not_a_number_before_a_number():
    rows = ask("easiest", {"k": 2, "per_class": 0}, scores=actions(s0=NAN, s1=INF, s2=7.0))
    assert pick(rows, "sample_id", "easiness_rank") == [(2, 1), (1, 2)]


def test_more_than_there_are_gives_all():
    assert len(ask("hardest", {"k": 99}, scores=CLASSES)) == 4


def test_aum_lists_the_smallest_area_first():
    rows = ask("aum", {"k": 2}, scores=scores(*({"sample_id": n, "aum": x} for n, x in enumerate([3.0, -2.0, 0.5]))))
    assert pick(rows, "aum_rank", "sample_id", "aum") == [(1, 1, -2.0), (2, 2, 0.5)]


def test_forgetting_leaves_out_what_was_never_learnt_and_breaks_ties_by_action():
    rows = ask(
        "forgetting",
        scores=scores(
            {"sample_id": 0, "forgetting": 1, "ever_learnt": True, "action": 1.0},
            {"sample_id": 1, "forgetting": 1, "ever_learnt": True, "action": 2.0},
            {"sample_id": 2, "forgetting": 3, "ever_learnt": True, "action": 0.0},
            {"sample_id": 3, "forgetting": None, "ever_learnt": False, "action": 9.0},
        ),
    )
    assert pick(rows, "sample_id", "forgetting") == [(2, 3), (1, 1), (0, 1)]


def test_el2n_is_the_mean_over_the_first_epochs():
    rows = [
        {"sample_id": s, "epoch": n, "el2n": x}
        for s, fate in enumerate([[0.5, 0.25, 9.0], [0.5, 1.0, 0.0]])
        for n, x in enumerate(fate)
    ]
    found = ask("el2n", {"el2n_epochs": 2}, dynamics=table(schema.DYNAMICS, rows, run_id="a", split="val"))
    assert pick(found, "sample_id", "epochs_seen", "el2n") == [(1, 2, 0.75), (0, 2, 0.375)]


SUSPECTS = scores(
    {"sample_id": 0, "label": 1, "prediction": 2, "aum": -3.0, "confidence": 0.2},
    {"sample_id": 1, "label": 1, "prediction": 1, "aum": -4.0, "confidence": 0.3},
    {"sample_id": 2, "label": 1, "prediction": 1, "aum": 5.0, "confidence": 0.9},
)


def test_label_suspects_suggest_what_the_model_said_in_most_epochs_and_last():
    """The last prediction of sample 1 is its label, which it has learnt by heart."""
    said = {0: [1, 2, 3, 3, 2], 1: [4, 4, 5, 1, 1], 2: [1, 1, 1, 1, 1]}
    rows = [{"sample_id": s, "epoch": n, "prediction": p} for s, fate in said.items() for n, p in enumerate(fate)]
    dynamics = table(schema.DYNAMICS, rows, run_id="a", split="val")
    found = ask("label_suspects", {"k": 3}, scores=SUSPECTS, dynamics=dynamics)
    assert pick(found, "suspect_rank", "sample_id", "suggested") == [(1, 1, 4), (2, 0, 2), (3, 2, None)]


def test_label_suspects_pass_over_a_class_that_is_nobodys():
    dynamics = table(
        schema.DYNAMICS,
        [{"sample_id": 0, "epoch": n, "prediction": p} for n, p in enumerate([9, 9, 2])],
        run_id="a",
        split="val",
    )
    given = scores({"sample_id": 0, "label": 1, "aum": 3.0}, {"sample_id": 1, "label": 9, "aum": -4.0})
    found = ask("label_suspects", {"no_class": 9}, scores=given, dynamics=dynamics)
    assert pick(found, "sample_id", "suggested") == [(0, 2)]


def test_label_suspects_can_go_by_confidence():
    assert pick(ask("label_suspects", {"by": "confidence", "k": 1}, scores=SUSPECTS), "sample_id") == [0]


def test_label_suspects_can_go_by_mean_action():
    """Sample 0 was seen once, and lost as much in one epoch as sample 1 in two."""
    given = scores(
        {"sample_id": 0, "label": 1, "action": 2.0, "action_mean": 2.0},
        {"sample_id": 1, "label": 1, "action": 2.0, "action_mean": 1.0},
    )
    assert pick(ask("label_suspects", {"by": "action"}, scores=given), "sample_id") == [0, 1]


def test_label_pairs_count_the_suspects_of_an_audit():
    rows = [
        {"label": 4, "suggested": 9, "chance_wrong": 1.0, "suspect": True},
        {"label": 1, "suggested": 7, "chance_wrong": 0.75, "suspect": True},
        {"label": 4, "suggested": 9, "chance_wrong": 0.5, "suspect": True},
        {"label": 4, "suggested": 9, "chance_wrong": 0.25, "suspect": False},
        {"label": 4, "suggested": None, "chance_wrong": 1.0, "suspect": True},
    ]
    audits = table(schema.AUDITS, rows, run_id="a", split="train", sample_id=0, suspect_rank=1, score=0.0)
    found = ask("label_pairs", audits=audits, runs=trainings({"run_id": "a"}), samples=class_names("nought", "one"))
    assert pick(found, "label", "label_name", "suggested", "samples", "share", "chance_wrong") == [
        (4, None, 9, 2, 0.5, 0.75),
        (1, "one", 7, 1, 0.25, 0.75),
        (4, None, None, 1, 0.25, 1.0),
    ]


LEAVES = [
    {
        "label": 0,
        "leaf": 1,
        "mode_rank": 2,
        "found": True,
        "holds": False,
        "rule": "a",
        "gain": 0.1,
        "chance_valid": 0.0,
    },
    {
        "label": 0,
        "leaf": 2,
        "mode_rank": 3,
        "found": False,
        "holds": True,
        "rule": "b",
        "gain": 0.1,
        "chance_valid": 0.0,
    },
    {
        "label": 1,
        "leaf": 1,
        "mode_rank": 4,
        "found": False,
        "holds": False,
        "rule": "c",
        "gain": 0.3,
        "chance_valid": 0.5,
    },
    {
        "label": 1,
        "leaf": 2,
        "mode_rank": 1,
        "found": True,
        "holds": True,
        "rule": "d",
        "gain": 0.3,
        "chance_valid": 0.5,
    },
    {"label": 2, "reason": "no failure"},
]


def leaves():
    common = {"run_id": "a", "split": "val", "target": "error", "grouping": "label", "depth": 1}
    return table(schema.FAILURE_MODES, LEAVES, samples=9, failures=3, **common)


def test_failure_modes_are_the_rules_that_were_found_in_their_order():
    found = ask("failure_modes", failure_modes=leaves(), runs=trainings({"run_id": "a"}), samples=class_names("nought"))
    assert pick(found, "mode_rank", "label", "label_name", "rule", "holds") == [
        (1, 1, None, "d", True),
        (2, 0, "nought", "a", False),
    ]


def test_failure_controls_count_classes_that_are_explained_and_those_whose_rule_holds():
    (found,) = ask("failure_controls", failure_modes=leaves())
    assert (found["classes"], found["explained"]) == (3, 2)
    assert (found["found"], found["holds"], found["by_chance"]) == (1.0, 0.5, 0.25)
    assert found["gain"] == pytest.approx(0.2)


FEATURES = pa.Table.from_pylist(
    [
        {"run_id": "a", "split": "val", "sample_id": n, "feature": x}
        for n, x in enumerate([[0.0, 1.0], [0.0, 3.0], [3.0, 5.0], [0.0, -1.0]])
    ],
    schema=schema.features_schema(2),
)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [("euclidean", [(1, 2.0), (3, 2.0), (2, 5.0)]), ("cosine", [(1, 0.0), (2, 0.142507), (3, 2.0)])],
)
def test_neighbours_are_the_nearest_in_feature_space(metric, expected):
    rows = ask("neighbours", {"sample_id": 0, "metric": metric}, features=FEATURES, scores=actions(s1=7.0))
    assert pick(rows, "neighbour_id", "distance") == [(n, pytest.approx(x, abs=1e-6)) for n, x in expected]
    assert pick(rows, "neighbour_rank") == [1, 2, 3]
    assert {row["neighbour_id"]: row["action"] for row in rows} == {1: 7.0, 2: None, 3: None}


def test_without_a_sample_the_hardest_are_asked_about():
    """A sample whose action is not a number is the hardest; one without features has no neighbours."""
    hardness = actions(s0=NAN, s1=7.0, s2=1.0, s3=8.0, s9=9.0)
    rows = ask("neighbours", {"hardest": 4, "k": 1}, features=FEATURES, scores=hardness)
    assert pick(rows, "origin_rank", "sample_id", "neighbour_id") == [(1, 0, 1), (3, 3, 0), (4, 1, 0)]
    assert pick(rows[1:], "origin_action") == [8.0, 7.0]


def test_a_neighbour_and_the_sample_itself_both_have_their_labels():
    known = scores({"sample_id": 0, "label": 4, "prediction": 7, "action": 3.0}, {"sample_id": 1, "label": 7})
    (row,) = ask("neighbours", {"hardest": 1, "k": 1}, features=FEATURES, scores=known)
    assert (row["origin_label"], row["origin_prediction"], row["label"]) == (4, 7, 7)


# Classes and curves


def test_loss_curves_average_each_epoch():
    (first, last) = ask("loss_curves", dynamics=losses(s0=[4.0, 1.0], s1=[2.0, 0.0]))
    assert (first["epoch"], first["samples"], first["mean_loss"], first["largest_loss"]) == (0, 2, 3.0, 4.0)
    assert (last["epoch"], last["mean_loss"], last["loss_deviation"]) == (1, 0.5, 0.5)


def test_loss_curves_of_a_training_that_broke_say_so():
    (first, last) = ask("loss_curves", dynamics=losses(s0=[4.0, NAN], s1=[2.0, INF]))
    assert (first["not_finite"], last["not_finite"]) == (0, 2)
    assert math.isnan(last["mean_loss"])


def test_loss_curves_of_one_split_or_all():
    tables = [losses(split="val", s0=[1.0]), losses(split="train", s0=[3.0])]
    assert pick(ask("loss_curves", dynamics=tables), "split", "mean_loss") == [("train", 3.0), ("val", 1.0)]
    assert pick(ask("loss_curves", {"split": "val"}, dynamics=tables), "split") == ["val"]


def test_loss_curves_by_class():
    rows = [{"sample_id": n, "epoch": 0, "loss": float(n), "label": n % 2, "correct": n < 2} for n in range(4)]
    found = ask("loss_curves", {"by_class": 1}, dynamics=table(schema.DYNAMICS, rows, run_id="a", split="val"))
    assert pick(found, "label", "mean_loss", "accuracy") == [(0, 1.0, 0.5), (1, 2.0, 0.5)]


def test_class_difficulty_puts_the_hardest_class_first():
    (hard, easy) = ask("class_difficulty", scores=CLASSES)
    assert (hard["label"], hard["samples"], hard["accuracy"], hard["mean_action"]) == (1, 2, 0.5, 5.0)
    assert (easy["action_p10"], easy["action_p50"], easy["action_p90"]) == pytest.approx((1.2, 2.0, 2.8))
    assert (hard["label_name"], hard["not_finite"]) == (None, 0)


def test_classes_get_their_names_from_the_runs_own_data_set():
    views = {
        "runs": trainings({"run_id": "a"}),
        "samples": [class_names("cat", "dog"), class_names("x", "y", digest="d2")],
    }
    assert pick(ask("class_difficulty", scores=CLASSES, **views), "label_name") == ["dog", "cat"]
    rows = ask("confusion", scores=CLASSES, **views)
    assert pick(rows, "label_name", "prediction_name") == [("cat", "cat"), ("dog", "cat"), ("dog", "dog")]


def test_a_broken_loss_shows_in_its_class_and_in_no_other():
    rows = ask("class_difficulty", scores=[CLASSES, scores({"sample_id": 4, "label": 1, "action": NAN})])
    assert pick(rows, "label", "not_finite") == [(1, 1), (0, 0)]
    assert math.isnan(rows[0]["mean_action"])
    assert (rows[0]["action_p50"], rows[1]["mean_action"]) == (6.0, 2.0)


def test_confusion_counts_pairs_and_shares_of_the_class():
    rows = ask("confusion", scores=CLASSES)
    assert pick(rows, "label", "prediction", "samples", "share") == [(0, 0, 2, 1.0), (1, 0, 1, 0.5), (1, 1, 1, 0.5)]
    assert pick(rows, "mean_action") == [2.0, 6.0, 4.0]


# Scores against other things


def judged(values, right, score="action"):
    return scores(*({"sample_id": n, score: x, "correct": n in right} for n, x in enumerate(values)))


def test_accuracy_falls_with_action():
    rows = ask("accuracy_by_score", {"bins": 2}, scores=judged([1.0, 2.0, 3.0, 4.0], right={0, 1, 2}))
    assert pick(rows, "bin", "samples", "score_low", "score_high", "score_mean", "accuracy") == [
        (1, 2, 1.0, 2.0, 1.5, 1.0),
        (2, 2, 3.0, 4.0, 3.5, 0.5),
    ]


def test_equal_scores_share_a_bin():
    rows = ask("accuracy_by_score", {"bins": 4}, scores=judged([0.0, 0.0, 0.0, 9.0], right={0}))
    assert pick(rows, "bin", "samples") == [(1, 3), (4, 1)]


def test_more_bins_than_samples_leave_some_without_a_row():
    assert pick(ask("accuracy_by_score", {"bins": 10}, scores=judged([1.0, 2.0], right={0})), "bin") == [1, 6]


def test_what_is_not_a_number_is_in_the_last_bin_and_what_is_not_there_in_none():
    rows = ask("accuracy_by_score", {"bins": 2}, scores=judged([NAN, 1.0, None, 2.0, 3.0], right={1}))
    assert pick(rows, "bin", "samples", "score_low") == [(1, 2, 1.0), (2, 2, 3.0)]
    assert math.isnan(rows[1]["score_mean"])


@pytest.mark.parametrize("score", ALL_SCORES)
def test_every_score_can_be_asked_for(score):
    given = scores(*({"sample_id": n, score: n, "correct": True} for n in (0, 1)))
    (row,) = ask("accuracy_by_score", {"bins": 1, "score": score}, scores=given)
    assert (row["score"], row["score_mean"]) == (score, 0.5)
    assert pick(ask("score_vs_score", {"score_x": score, "score_y": score}, scores=given), "x", "y") == [(0, 0), (1, 1)]
    assert pick(ask("curriculum", {"run_id": "a", "split": "val", "score": score}, scores=given), "score")[0] in (0, 1)


@pytest.mark.parametrize(
    ("name", "parameters", "said"),
    [
        ("accuracy_by_score", {"score": "sharpness"}, "there is no score sharpness"),
        ("score_vs_score", {"score_x": "sharpness"}, "there is no score sharpness"),
        ("action_entropy_correlation", {"score": "sharpness"}, "there is no score sharpness"),
        ("curriculum", {"run_id": "a", "split": "val", "score": "sharpness"}, "there is no score sharpness"),
        ("curriculum", {"run_id": "a", "split": "val", "order": "backwards"}, "not backwards"),
        ("label_suspects", {"by": "luck"}, "not by luck"),
        ("quantile_correlation", {"run_a": "a", "run_b": "a", "side": "left"}, "not left"),
    ],
)
def test_a_word_that_means_nothing_is_refused(name, parameters, said):
    with pytest.raises(QueryError, match=said):
        ask(name, parameters, scores=CLASSES)


def test_two_scores_side_by_side():
    rows = ask(
        "score_vs_score", scores=scores({"sample_id": 5, "action": 2.0, "entropy": 0.25, "label": 1, "correct": True})
    )
    assert pick(rows, "sample_id", "x", "y", "label", "correct") == [(5, 2.0, 0.25, 1, True)]


def test_cartography_has_three_regions_and_none_for_what_has_no_number():
    points = [(0.9, 0.1), (0.2, 0.1), (0.6, 0.4), (None, None), (NAN, NAN), (0.8, 0.2)]
    rows = [{"sample_id": n, "confidence": c, "variability": v} for n, (c, v) in enumerate(points)]
    found = ask("cartography", {"ambiguous": 0.25}, scores=scores(*rows))
    assert pick(found, "region") == ["easy", "hard", "ambiguous", None, None, "easy"]


# Runs against each other


def test_two_runs_that_agree_correlate_fully():
    (overall,) = ask(
        "run_correlation",
        {"run_a": "a", "run_b": "b"},
        scores=[actions("a", s0=1.0, s1=2.0, s2=3.0, s3=4.0), actions("b", s0=2.0, s1=4.0, s2=6.0, s3=8.0)],
    )
    assert (overall["label"], overall["label_name"], overall["samples"]) == (None, "overall", 4)
    assert [overall[name] for name in ("pearson", "pearson_low", "pearson_high", "spearman")] == pytest.approx(
        [1.0] * 4
    )


def test_classes_correlate_on_their_own():
    """In each class the runs disagree; overall they agree, because one class is harder for both."""
    labels, a, b = [0, 0, 1, 1], [1.0, 2.0, 11.0, 12.0], [2.0, 1.0, 12.0, 11.0]
    tables = [
        scores(*({"sample_id": n, "label": labels[n], "action": x} for n, x in enumerate(run)), run_id=run_id)
        for run_id, run in (("a", a), ("b", b))
    ]
    rows = ask(
        "run_correlation",
        {"run_a": "a", "run_b": "b"},
        scores=tables,
        runs=trainings({"run_id": "a"}),
        samples=class_names("cat", "dog"),
    )
    assert pick(rows, "label", "label_name", "samples") == [(None, "overall", 4), (0, "cat", 2), (1, "dog", 2)]
    assert rows[0]["pearson"] > 0.9
    assert pick(rows[1:], "pearson", "spearman", "pearson_low") == [(pytest.approx(-1), pytest.approx(-1), None)] * 2


def test_a_correlation_counts_what_it_leaves_out():
    tables = [
        actions("a", s0=1.0, s1=2.0, s2=NAN, s3=INF, s4=5.0, s5=0.0),
        actions("b", s0=1.0, s1=2.0, s2=3.0, s3=4.0, s6=1.0),
    ]
    for name in ("run_correlation", "quantile_correlation"):
        row = ask(name, {"run_a": "a", "run_b": "b"}, scores=tables)[0]
        assert (row["samples"], row["left_out"], row["not_finite"]) == (2, 3, 2)


def test_no_spread_is_no_correlation():
    tables = [actions("a", s0=1.0, s1=1.0, s2=1.0), actions("b", s0=1.0, s1=2.0, s2=3.0)]
    (row,) = ask("run_correlation", {"run_a": "a", "run_b": "b"}, scores=tables)
    assert (row["pearson"], row["spearman"], row["pearson_low"]) == (None, None, None)


def test_a_run_correlates_with_itself():
    (row,) = ask("run_correlation", {"run_a": "a", "run_b": "a"}, scores=actions(s0=1.0, s1=5.0, s2=3.0))
    assert (row["samples"], row["left_out"], row["pearson"]) == (3, 0, pytest.approx(1.0))


HALVES = [
    actions("a", **{f"s{n}": float(n) for n in range(8)}),
    actions("b", **{f"s{n}": x for n, x in enumerate([0.0, 1.0, 2.0, 3.0, 7.0, 6.0, 5.0, 4.0])}),
]


def test_quantiles_show_agreement_on_easy_samples_and_none_on_hard_ones():
    asked = {"run_a": "a", "run_b": "b", "quantiles": 2, "least": 2}
    whole, upper = ask("quantile_correlation", asked, scores=HALVES)
    lower, all_below = ask("quantile_correlation", {**asked, "side": "below"}, scores=HALVES)
    low_bin, high_bin = ask("quantile_correlation", {**asked, "side": "within"}, scores=HALVES)
    assert [row["quantile"] for row in (whole, upper, lower, all_below, low_bin, high_bin)] == [0, 0.5, 0.5, 1, 0, 0.5]
    assert [row["samples"] for row in (whole, upper, lower, all_below, low_bin, high_bin)] == [8, 4, 4, 8, 4, 4]
    assert [row["pearson"] for row in (upper, lower, low_bin, high_bin)] == pytest.approx([-1, 1, 1, -1])
    assert whole["pearson"] == pytest.approx(all_below["pearson"])
    assert (upper["action_low"], upper["action_high"]) == (4.0, 7.0)


def test_too_few_samples_are_no_correlation():
    rows = ask("quantile_correlation", {"run_a": "a", "run_b": "b", "quantiles": 2, "least": 5}, scores=HALVES)
    assert pick(rows, "samples", "pearson") == [(8, pytest.approx(16 / 21)), (4, None)]


def test_samples_that_tie_at_a_quantile_are_all_at_or_above_and_at_or_below_it():
    tables = [actions(run, **{f"s{n}": x for n, x in enumerate([0.0, 1.0, 1.0, 1.0, 2.0])}) for run in "ab"]
    asked = {"run_a": "a", "run_b": "b", "quantiles": 2, "least": 2}
    assert pick(ask("quantile_correlation", asked, scores=tables), "samples") == [5, 4]
    assert pick(ask("quantile_correlation", {**asked, "side": "below"}, scores=tables), "samples") == [4, 5]
    assert pick(ask("quantile_correlation", {**asked, "side": "within"}, scores=tables), "samples") == [1, 4]


def test_the_matrix_has_every_pair_of_a_data_set_and_marks_the_baseline():
    runs = trainings(
        {"run_id": "c", "name": "cnn-0", "model": "cnn"},
        {"run_id": "b", "name": "cnn-1", "model": "cnn"},
        {"run_id": "a", "name": "res-0", "model": "resnet"},
        {"run_id": "x", "name": "other", "model": "cnn", "dataset_digest": "d2"},
    )
    easy, hard = {"s0": 1.0, "s1": 2.0, "s2": 3.0}, {"s0": 3.0, "s1": 2.0, "s2": 1.0, "s9": 5.0}
    tables = [actions("c", **easy), actions("b", **easy), actions("a", **hard), actions("x", **easy)]
    rows = ask("agreement_matrix", runs=runs, scores=tables)
    assert pick(rows, "name_a", "name_b", "baseline", "samples", "left_out") == [
        ("cnn-0", "res-0", False, 3, 1),
        ("cnn-1", "res-0", False, 3, 1),
        ("cnn-0", "cnn-1", True, 3, 0),
    ]
    assert pick(rows, "pearson") == pytest.approx([-1, -1, 1])
    assert pick(rows, "spearman") == pytest.approx([-1, -1, 1])


def test_disagreement_lists_what_is_hard_for_one_and_easy_for_the_other():
    tables = [actions("a", s0=9.0, s1=0.0, s2=5.0), actions("b", s0=0.1, s1=0.9, s2=0.5)]
    rows = ask("disagreement", {"run_a": "a", "run_b": "b"}, scores=tables)
    assert pick(rows, "harder_for", "sample_id", "hardness_a", "hardness_b", "gap") == [
        ("a", 0, 1.0, 0.0, 1.0),
        ("b", 1, 0.0, 1.0, 1.0),
    ]


def test_stability_is_the_overlap_of_the_hardest():
    runs = trainings(*({"run_id": r, "model": m} for r, m in (("a", "cnn"), ("b", "cnn"), ("c", "resnet"))))
    tables = [
        actions("a", s0=9.0, s1=8.0, s2=1.0, s3=0.0),
        actions("b", s0=9.0, s1=1.0, s2=8.0, s3=0.0),
        actions("c", s0=0.0, s1=9.0, s2=1.0, s3=8.0),
    ]
    rows = ask("stability", {"percent": 50}, runs=runs, scores=tables)
    assert pick(rows, "dataset", "model", "runs", "samples", "hardest", "in_any", "in_all", "by_chance") == [
        ("digits", "cnn", 2, 4, 2.0, 3, 1, 0.5),
        ("digits", "resnet", 1, 4, 2.0, 2, 2, 0.5),
        ("digits", "all", 3, 4, 2.0, 4, 0, 0.5),
    ]
    assert pick(rows, "overlap") == [0.5, None, pytest.approx((1 + 1 + 0) / 2 / 3)]


# Curricula


def curriculum(given, **parameters):
    return ask("curriculum", {"run_id": "a", "split": "val", **parameters}, scores=given)


TEN = actions(**{f"s{n}": float(n) for n in range(10)})


def test_easy_first_goes_up_and_hard_first_is_the_same_backwards():
    assert pick(curriculum(TEN), "position", "sample_id", "score") == [(n, n, float(n)) for n in range(10)]
    assert pick(curriculum(TEN, order="hard-first"), "position", "sample_id") == [(n, 9 - n) for n in range(10)]


def test_the_hardest_are_dropped_before_the_fraction_is_taken():
    assert pick(curriculum(TEN, drop_hardest=0.2, fraction=0.5), "sample_id") == [0, 1, 2, 3]
    assert pick(curriculum(TEN, drop_hardest=0.2, fraction=0.5, order="hard-first"), "sample_id") == [7, 6, 5, 4]


def test_counts_are_rounded_to_the_nearest_and_halves_up():
    assert [len(curriculum(TEN, fraction=x)) for x in (0.04, 0.05, 0.14, 0.15, 0.96)] == [0, 1, 1, 2, 10]


def test_stages_are_equally_large():
    assert pick(curriculum(TEN, stages=4), "stage") == [0, 0, 0, 1, 1, 2, 2, 2, 3, 3]


def test_high_aum_is_easy_and_what_was_never_learnt_is_hardest():
    by_aum = scores(*({"sample_id": n, "aum": x} for n, x in enumerate([-1.0, 5.0, NAN])))
    assert pick(curriculum(by_aum, score="aum"), "sample_id") == [1, 0, 2]
    never_learnt = scores(*({"sample_id": n, "forgetting": x} for n, x in enumerate([None, 0, 3])))
    assert pick(curriculum(never_learnt, score="forgetting"), "sample_id") == [1, 2, 0]
    assert pick(curriculum(never_learnt, score="forgetting", order="hard-first"), "sample_id") == [0, 2, 1]


IMBALANCED = scores(*({"sample_id": n, "label": n // 6, "action": float(n)} for n in range(9)))


def test_balanced_keeps_the_shares_of_the_classes_in_every_stage():
    rows = curriculum(IMBALANCED, balanced=1, stages=3)
    labels = [row["sample_id"] // 6 for row in rows]
    assert [sorted(labels[n : n + 3]) for n in (0, 3, 6)] == [[0, 0, 1]] * 3
    assert pick(rows, "stage") == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert pick(curriculum(IMBALANCED, balanced=1, drop_hardest=1 / 3), "sample_id") == [0, 6, 1, 2, 7, 3]


def test_random_order_depends_on_the_seed_alone():
    first, again, other = (pick(curriculum(TEN, order="random", seed=seed), "sample_id") for seed in (1, 1, 2))
    assert first == again != other
    assert sorted(first) == sorted(other) == list(range(10))
    assert first not in (sorted(first), sorted(first)[::-1])


def test_random_order_of_other_samples_does_not_move_these():
    some = TEN.slice(0, 5)
    order = [n for n in pick(curriculum(TEN, order="random"), "sample_id") if n < 5]
    assert pick(curriculum(some, order="random"), "sample_id") == order


def test_a_random_order_that_drops_the_hardest_is_without_them():
    assert sorted(pick(curriculum(TEN, order="random", drop_hardest=0.3), "sample_id")) == list(range(7))
