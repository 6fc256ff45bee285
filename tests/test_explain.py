"""Explained failures: of runs that are made up, of real trainings, and what a person is told."""

import html
import re
import sys

import mlflow
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests
from click.testing import CliRunner
from conftest import train
from made_up_runs import record
from servers import Server

import actionflow
from actionflow.analysis.attributes import attributes_of, text_attributes
from actionflow.analysis.failure_modes import Terms
from actionflow.cli import cli
from actionflow.cli import main as command_line
from actionflow.errors import DataError, QueryError, SettingsError
from actionflow.store import schema
from actionflow.store.writing import RunWriter
from actionflow.training.data import load_dataset

SAMPLES = 400


def fails_in_the_rain(store, name, digest="weather", features=True, **changed):
    """A run on two classes; class 1 is mistaken for 0 mostly when it rains, and feature 3 says so."""
    draw = np.random.default_rng(0)
    labels, rain = np.arange(SAMPLES) % 2, draw.random(SAMPLES) < 0.3
    wrong = draw.random(SAMPLES) < np.where(rain & (labels == 1), 0.7, 0.08)
    columns = {"sample_id": range(SAMPLES), "label": labels, "label_name": [f"class {n}" for n in labels]}
    texts = {"text": ["it is not dry" if each else "a dry day" for each in rain]}
    tags = keep(
        store, digest, columns | texts | {"weather": np.where(rain, "rain", "sun"), "speed": draw.random(SAMPLES)}
    )
    predictions = np.where(wrong, 1 - labels, labels)
    losses = (0.1 + 2 * wrong)[:, None].repeat(2, axis=1)
    run_id = record(name, losses, labels, predictions, tags)
    values = draw.normal(size=(SAMPLES, 6)).astype(np.float32)
    values[:, 3] += 3 * rain
    for place, value in changed.items():
        values[:, int(place.removeprefix("feature_"))] = value
    if features:
        writer = RunWriter(run_id, store.client)
        writer.log_features("val", np.arange(SAMPLES), values)
        writer.sender.close()
    return run_id


def keep(store, digest, columns):
    """The data set's own run, with columns of the user's own."""
    from actionflow.store.datasets import dataset_run, samples_table

    house = {name: pa.array(columns[name]) for name in columns if name in schema.SAMPLES.names}
    own = {name: pa.array(columns[name]) for name in columns if name not in house}
    part = samples_table("made", digest, "test", house, own)
    run_id = dataset_run(store.client, store.experiment, "made", digest, lambda: {"test": part})
    return {"actionflow.dataset": "made", "actionflow.dataset_digest": digest, "actionflow.dataset_run": run_id}


@pytest.fixture(scope="module")
def runs(module_store):
    return {
        "rain": fails_in_the_rain(module_store, "rain"),
        "bare": fails_in_the_rain(module_store, "bare", features=False),
        "nan": fails_in_the_rain(module_store, "nan", feature_2=np.nan),
        "constant": fails_in_the_rain(module_store, "constant", **{f"feature_{n}": 1 for n in range(6)}),
        "perfect": record("perfect", np.ones((60, 1)), np.arange(60) % 2, np.arange(60) % 2),
        "losses": _only_losses(),
    }


def _only_losses():
    with mlflow.start_run(run_name="losses") as run, actionflow.Recorder() as recorder:
        recorder.add_signals(np.arange(100), {"loss": np.arange(100.0)}, split="val")
        recorder.end_epoch()
    writer = RunWriter(run.info.run_id)
    writer.log_features("val", np.arange(100), np.arange(100, dtype=np.float32)[:, None])
    writer.sender.close()
    return run.info.run_id


# What is found.


def test_the_feature_that_goes_with_failures_is_found_and_holds(runs):
    found = actionflow.explain("rain", features="own")
    (rule,) = found.rules.to_pylist()
    assert (rule["label"], rule["rule"].split(" >")[0], rule["holds"]) == (1, "feature 3", True)
    assert rule["er"] > rule["ber"] + 0.1
    assert rule["ec"] > 0.2
    assert rule["beaten"] == 1.0
    told = found.sentences()[0]
    assert told.startswith("label class 1: when feature 3 > ")
    assert f"the error rate is {rule['er']:.2f} (base {rule['ber']:.2f}) and {100 * rule['ec']:.0f} % of all" in told


def test_figures_are_those_of_the_members_that_no_tree_has_seen(runs):
    found = actionflow.explain("rain", features="own", depth=3)
    for rule in found.rules.to_pylist():
        rows = [row for row in found.in_leaf(rule).to_pylist() if not row["fitted"]]
        assert (len(rows), sum(row["failed"] for row in rows)) == (rule["samples"], rule["failures"])


def test_by_prediction_the_same_errors_are_those_of_the_other_class(runs):
    """Samples of class 1 in the rain are taken for class 0."""
    found = actionflow.explain("rain", grouping="prediction", features="own")
    assert {(row["label"], row["rule"].split(" >")[0]) for row in found.rules.to_pylist()} == {(0, "feature 3")}
    assert found.sentences()[0].startswith("prediction class 0: when feature 3 > ")


def test_columns_of_the_users_own_explain_in_their_words(runs):
    found = actionflow.explain("rain", attributes="weather,speed")
    assert found.rules["rule"].to_pylist()[0] in ("weather is rain", "weather is not sun")
    assert found.source == "3 attributes from weather, speed"


def test_attributes_stand_beside_features_when_both_are_named(runs):
    found = actionflow.explain("rain", features="own", attributes="speed")
    assert len(found.asked.attributes.names) == 7
    assert found.source == "6 features of the model rain itself and 1 attributes from speed"


def test_a_run_on_texts_is_explained_by_what_can_be_read_off_them(runs):
    found = actionflow.explain("rain")
    assert [name.name for name in found.asked.attributes.names] == [
        *("words of text", "negation in text", "question in text", "rare words of text")
    ]
    assert found.rules.num_rows == 1
    assert any(word in found.rules["rule"][0].as_py() for word in ("the text denies", "words of text > 3"))


def test_high_action_is_explained_where_there_is_no_error_to_explain(runs):
    """All losses are one of two: those of mistakes are the high ones."""
    high = actionflow.explain("rain", target="action", features="own", high=0.15)
    assert 0 < high.asked.failed.sum() <= 0.15 * SAMPLES + SAMPLES // 10
    assert "the share of high action" in high.sentences()[0]


def test_samples_without_classes_are_explained_together(runs):
    """The loss of sample n is n, and so is its only feature."""
    found = actionflow.explain("losses", target="action", features="own", high=0.3)
    assert found.asked.failed.sum() == 30
    (rule,) = found.rules.to_pylist()
    assert rule["label"] is None
    assert rule["er"] > 0.8
    assert rule["ec"] > 0.8
    assert found.sentences()[0].startswith("label all samples: when feature 0 > ")
    with pytest.raises(DataError, match="has no prediction of its samples: type --grouping label"):
        actionflow.explain("losses", "val", "prediction", target="action", features="own")


def test_only_the_rules_of_a_class_are_shown(runs):
    found = actionflow.explain("rain", features="own")
    assert found.of_class("class 1").rules.num_rows == 1
    assert found.of_class("0").rules.num_rows == 0
    with pytest.raises(DataError, match=r"has no class clas 1. Did you mean class 1"):
        found.of_class("clas 1")


def test_shuffled_failures_give_next_to_nothing(runs):
    (row,) = [r for r in actionflow.explain("rain", features="own").controls.to_pylist() if r["depth"] == 1][:1]
    assert row["gain"] > 5 * row["chance_gain"]
    assert row["by_chance"] == 0


def test_the_same_seed_gives_the_same_rules(runs):
    one, two = (actionflow.explain("rain", features="own", terms=Terms(permutations=2)) for _ in range(2))
    assert one.modes.equals(two.modes)
    assert one.members.equals(two.members)


# What stays in the run.


def test_a_logged_explanation_is_views_and_a_report(runs, module_store):
    found = actionflow.explain("rain", features="own", depth=2)
    run_id = found.log()
    folder = module_store.artifacts(run_id)
    facts = schema.stamp_of(pq.read_schema(folder / "actionflow/failure_modes/val.parquet"), "modes")
    assert (facts["kind"], facts["top"], facts["features_run"]) == ("failure_modes", 20, run_id)
    rules = actionflow.query("failure_modes", runs="rain", depth=2)
    assert rules.equals(found.rules)
    members = "select count(*) as n, count(distinct sample_id) as samples from failure_members where depth = 2"
    assert actionflow.query(members, runs="rain").to_pylist() == [{"n": 2 * SAMPLES, "samples": SAMPLES}]
    page = (folder / "failure_modes.html").read_text()
    assert "Is it more than chance?" in page
    assert found.sentences()[0].split(" the error")[0].replace(">", "&gt;") in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_the_verb_prints_rules_and_the_project_keeps_them(runs, monkeypatch, capsys):
    shown = CliRunner().invoke(cli, ["explain", "rain", "--features", "own", "--format", "table"])
    assert shown.exit_code == 0, shown.output
    assert "1. label class 1: when feature 3 > " in shown.output
    from projects.failure_modes import main

    main(["--run", "rain", "--features", "own", "--grouping", "prediction", "--k", "3"], standalone_mode=False)
    assert "prediction class 0: when feature 3" in capsys.readouterr().out


# Real pictures.


def test_a_figure_shows_what_a_feature_looks_at_and_failures(module_store):
    train(limit=300, epochs=1, run_name="digits")
    found = actionflow.explain("digits", features="own", terms=Terms(permutations=1, least=5))
    figures = found.figures(1)
    (rank,) = figures
    assert found.rules["mode_rank"][0].as_py() == rank
    # Where it is highest, what it sees, changed, failures.
    assert figures[rank].height > 4 * 96


def test_digits_have_the_features_of_every_validation_sample(module_store):
    """The same data set in the same order, so that ids of other runs mean the same samples."""
    ids = load_dataset("digits").limit(300).parts["test"].sample_ids
    rows = actionflow.query("select sample_id from features where split = 'val' order by sample_id", runs="digits")
    assert rows["sample_id"].to_pylist() == ids.tolist()


# The page.


def test_the_page_shows_the_rules_of_a_run_and_their_figures(runs, module_store):
    digits = actionflow.explain("digits", features="own", terms=Terms(permutations=1, least=5)).log()
    told = actionflow.explain("rain", features="own")
    told.log()
    server = Server(module_store.folder, ("-m", "actionflow.cli", "serve"))
    try:
        server.start()
        pages = f"{server.uri}/actionflow/runs"
        assert f"/actionflow/runs/{digits}/failures" in requests.get(f"{pages}/{digits}").text
        shown = html.unescape(requests.get(f"{pages}/{runs['rain']}/failures?depth=1").text)
        assert told.sentences()[0] in shown
        assert "it is not dry" in shown
        with_figures = requests.get(f"{pages}/{digits}/failures").text
        figure = re.search(r'<img class="rule" src="([^"]+)"', with_figures)[1]
        answer = requests.get(server.uri + figure)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
        for bad in ("failure_modes.label_1_99", "actionflow.run", ".."):
            assert requests.get(f"{pages}/{digits}/failures/{bad}.png").status_code == 404
        assert requests.get(f"{pages}/{digits}/failures?grouping=size").status_code == 404
        assert "actionflow explain" in requests.get(f"{pages}/{runs['bare']}/failures").text
    finally:
        server.stop()


# Attributes.


def test_numbers_words_and_missing_values_become_attributes():
    made = attributes_of(
        {
            "speed": pa.array([1.0, None, 3.0]),
            "sky": pa.array(["clear", "clear", None]),
            "new": pa.array([True, False, True]),
        }
    )
    assert [name.name for name in made.names] == ["speed", "speed missing", "sky=clear", "sky missing", "new"]
    assert made.values.tolist() == [[1, 0, 1, 0, 1], [2, 1, 1, 0, 0], [3, 0, 0, 1, 1]]


def test_rare_words_are_those_that_few_texts_have():
    made = text_attributes(["the cat"] * 5 + ["the zebra"])
    assert made.values[:, 3].tolist() == [0, 0, 0, 0, 0, 1]


# Bad input.


def test_a_run_without_features_says_what_to_type(runs):
    with pytest.raises(DataError, match="kept no features: train it with -P features=both"):
        actionflow.explain("bare", features="own")


def test_without_a_robust_model_it_says_how_to_train_one(runs):
    with pytest.raises(
        DataError, match=r"no robust model was trained on the data of run rain .* -e robust -P dataset=made"
    ):
        actionflow.explain("rain", features="robust")


def test_a_run_without_predictions_has_no_errors_to_explain(runs):
    with pytest.raises(DataError, match=r"recorded no predictions of split val.*--target action"):
        actionflow.explain("losses", features="own")


def test_a_split_without_errors_says_what_to_explain_instead(runs):
    with pytest.raises(DataError, match="made no error on its 60 val samples: type --target action"):
        actionflow.explain("perfect", features="own")


def test_constant_features_explain_nothing_and_are_reported(runs):
    found = actionflow.explain("constant", features="own", terms=Terms(least=5))
    assert found.rules.num_rows == 0
    assert set(found.classes()["reason"].to_pylist()) == {"no feature varies"}
    assert "Not explained: class 0 (no feature varies), class 1 (no feature varies)." in found.text()


def test_features_that_are_no_numbers_are_refused(runs):
    with pytest.raises(DataError, match=r"features of run nan .* no numbers .* in 400 samples, feature 2 first"):
        actionflow.explain("nan", features="own")


def test_classes_with_too_few_failures_are_reported(runs):
    found = actionflow.explain("rain", features="own", terms=Terms(least=1000))
    reasons = found.classes()["reason"].to_pylist()
    assert all(reason.endswith("1000 are needed") for reason in reasons)
    assert found.log()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"depth": 4}, "depth is 1, 2 or 3, found 4"),
        ({"grouping": "size"}, "grouping is label or prediction, found size"),
        ({"target": "loss"}, "target is error or action, found loss"),
        ({"target": "action", "high": 1.5}, "high is the share"),
        ({"features": "none", "attributes": "wether"}, "have no column wether. Did you mean weather"),
        ({"features": "nowhere"}, "nowhere"),
        ({"split": "test"}, "recorded no split test, only val"),
    ],
)
def test_what_cannot_be_meant_is_told_of_runs(runs, words, told):
    with pytest.raises((SettingsError, DataError, QueryError, actionflow.ActionFlowError), match=told):
        actionflow.explain("rain", **words)


@pytest.mark.parametrize("words", [{"top": 0}, {"permutations": -1}, {"tau": 1.5}, {"delta": -0.1}, {"least": 1}])
def test_terms_that_cannot_be_meant_are_refused(words):
    with pytest.raises(SettingsError, match=next(iter(words))):
        Terms(**words)


def test_features_of_other_data_are_refused(runs, module_store):
    if not module_store.client.search_runs([module_store.experiment], "attributes.run_name = 'digits'"):
        train(limit=300, epochs=1, run_name="digits")
    with pytest.raises(DataError, match=r"has features of other data \(digits\) than run rain \(made\)"):
        actionflow.explain("rain", features="digits")


def test_a_mistake_is_one_line_on_the_command_line(runs, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["actionflow", "explain", "perfect", "--features", "own"])
    with pytest.raises(SystemExit) as left:
        command_line()
    assert str(left.value).startswith("Error: run perfect")
    assert "\n" not in str(left.value)
