"""The whole chain on a small training: every step in its run, read in SQL, gone on with, labelled, corrected."""

import json

import mlflow
import pytest
import requests
from click.testing import CliRunner
from conftest import SMALL, train
from made_up_runs import three_samples
from servers import Server

import actionflow
from actionflow.cli import cli
from actionflow.errors import ActionFlowError, DataError, QueryError, StoreError
from actionflow.labelling import keep_labels, labels_for, progress_of, scenarios_in
from actionflow.present.mending import Tuned
from actionflow.store.finding import find_runs
from actionflow.store.scenario_labels import ScenarioLabel
from actionflow.tracking.mending import Chain, correct, correct_step, distill, identify, identify_step, train_vae
from actionflow.tracking.mending.correct_step import chosen
from actionflow.tracking.mending.vae_step import VaeRun
from actionflow.training.mending.settings import CorrectStep, DefuseSettings, DistillStep, IdentifyStep, VaeStep
from projects.defuse import defuse

STEPS = {"steps": 15, "most": 5, "a": 1.0, "b": 1.0}
MENDING = {"lambdas": "0.1", "epochs": 1, "batch_size": 32, "drawn": 8}


@pytest.fixture(scope="module")
def classifier(module_store):
    return train(limit=400, epochs=8, run_name="small", validation=0.2, features="val", record="val")


@pytest.fixture(scope="module")
def chain(classifier):
    """A chain up to the scenarios, each step asked for by the classifier's name, as people do."""
    train_vae(
        Chain.of(classifier, begins=True),
        VaeStep(run=classifier, epochs=25, batch_size=16, beta=0.05, learning_rate=0.003),
    )
    identify(Chain.of(classifier), IdentifyStep(run=classifier, **STEPS))
    distill(Chain.of(classifier), DistillStep(run=classifier, components=3))
    return Chain.of(classifier)


@pytest.fixture(scope="module")
def corrected(chain):
    return correct(Chain.of(chain.run_id), CorrectStep(run=chain.run_id, labels="source", **MENDING))


def run_of(chain, step):
    return chain.finished(step).run


def test_every_step_is_a_run_below_one_parent(chain, module_store):
    parents = {run_of(chain, step).data.tags["mlflow.parentRunId"] for step in ("vae", "identify", "distill")}
    assert parents == {chain.run_id}
    assert module_store.client.get_run(chain.run_id).data.tags["actionflow.kind"] == "defuse"


def test_the_vae_logs_what_it_makes_and_how_well_it_is_read(chain, module_store):
    run = run_of(chain, "vae")
    there = {info.path for info in module_store.client.list_artifacts(run.info.run_id)}
    assert {"reconstructions.png", "samples.png", "traverse.png"} <= there
    original, rebuilt = run.data.metrics["read/original_accuracy"], run.data.metrics["read/reconstruction_accuracy"]
    note = run.data.tags["mlflow.note.content"]
    assert f"{100 * original:.1f} %" in note
    assert ("Warning" in note) == (original - rebuilt > 0.1)


def test_counterexamples_are_read_by_the_classifiers_run_and_contradict_their_source(chain, classifier):
    sql = "select *, prediction <> label as wrong, len(code) as size from counterexamples"
    rows = actionflow.query(sql, runs=classifier).to_pylist()
    assert rows, run_of(chain, "identify").data.tags["mlflow.note.content"]
    assert all(row["wrong"] and row["size"] == 10 and row["run_id"] == classifier for row in rows)
    assert len({row["counterexample"] for row in rows}) == len(rows)
    by_source = actionflow.query(
        "select max(n) as n from (select count(*) as n from counterexamples group by sample_id)"
    )
    assert by_source["n"][0].as_py() <= STEPS["most"]
    sources = actionflow.query(
        """select bool_and(samples.label = counterexamples.label) as same from counterexamples
        inner join runs using (run_id) inner join samples
        on samples.digest = runs.dataset_digest and samples.sample_id = counterexamples.sample_id""",
        runs=classifier,
    )
    assert sources["same"][0].as_py()


def test_scenarios_hold_every_kept_counterexample_once(chain, classifier):
    rows = actionflow.query("select * from scenarios", runs=classifier).to_pylist()
    members = [number for row in rows for number in row["counterexamples"]]
    assert len(members) == len(set(members))
    assert all(len(row["sample_images"]) == 10 and row["sample_images"][0].startswith(b"\x89PNG") for row in rows)
    assert all(sum(each["samples"] for each in row["source_labels"]) == row["size"] for row in rows if row["size"])
    for word in (chain.run_id, run_of(chain, "distill").info.run_id):
        assert actionflow.query("scenarios", runs=word).num_rows == len(rows)


def test_the_same_step_told_the_same_is_found_again(chain):
    assert chain.finished("identify", IdentifyStep(run="x", **STEPS)) is not None
    assert chain.finished("identify", IdentifyStep(run="x", **{**STEPS, "steps": 16})) is None


def test_correct_compares_before_and_after_with_both_controls(corrected, module_store):
    table = json.loads((module_store.artifacts(corrected) / "mending.json").read_text())
    kinds = [row[table["columns"].index("tuned_on")] for row in table["data"]]
    assert kinds == ["before", "raw counterexamples", "scenarios", "control: data alone"]
    assert (module_store.artifacts(corrected) / "trade_off.png").is_file()
    text = (module_store.artifacts(corrected) / "mending.txt").read_text()
    assert "nobody looked at them" in text
    tunings = module_store.client.search_runs([module_store.experiment], f"tags.mlflow.parentRunId = '{corrected}'")
    assert len(tunings) == 4  # control, one lambda for each kind of failures, and the mended classifier's recording


def test_the_mended_classifier_is_the_chosen_one_and_compares_with_the_old(corrected, classifier, module_store):
    run = module_store.client.get_run(corrected)
    mended = module_store.client.get_run(run.data.tags["actionflow.mended_run"])
    assert mended.data.tags["actionflow.mended_from"] == classifier
    assert mended.data.metrics["best/val_accuracy"] == pytest.approx(run.data.metrics["mended/validation"])
    assert mlflow.pyfunc.load_model(f"runs:/{mended.info.run_id}/model") is not None
    table = actionflow.query("run_correlation", run_a=classifier, run_b=mended.info.run_id)
    assert table.num_rows > 0


def test_lambda_is_the_best_on_validation_and_the_cost_that_is_allowed_buys_mending():
    cheap = Tuned("scenarios", 0.1, validation=0.90, test=0.5, scenarios=0.1, scenarios_tuned_on=0.2)
    dear = Tuned("scenarios", 1.0, validation=0.89, test=0.9, scenarios=0.9, scenarios_tuned_on=0.8)
    assert chosen([cheap, dear], 0.0) is cheap
    assert chosen([cheap, dear], 0.01) is dear


def test_an_interrupted_search_goes_on_in_its_own_run_after_its_last_part(chain, monkeypatch):
    monkeypatch.setattr(identify_step, "PART", 128)
    step = IdentifyStep(run=chain.run_id, seed=5, **STEPS)
    search, calls = identify_step.search, []

    def interrupted(*given):
        calls.append(given)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return search(*given)

    monkeypatch.setattr(identify_step, "search", interrupted)
    with pytest.raises(KeyboardInterrupt):
        identify(chain, step)
    run_id = identify(chain, step)
    assert len(calls) == 4  # parts 0 and 1, then 1 and 2: part 0 is not done again
    again = identify(chain, IdentifyStep(run=chain.run_id, **{**STEPS, "steps": 14}))
    assert run_id != again
    ids = actionflow.query("select sample_id from counterexamples order by counterexample", runs=run_id)["sample_id"]
    assert len(set(ids.to_pylist())) > 1
    for made in (run_id, again):
        mlflow.delete_run(made)


def test_an_interrupted_vae_goes_on_after_its_last_epoch(classifier, module_store, monkeypatch):
    end_epoch, ended = VaeRun.end_epoch, []

    def interrupted(self, *given):
        end_epoch(self, *given)
        ended.append(self.run_id)
        if len(ended) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(VaeRun, "end_epoch", interrupted)
    chain, step = Chain.of(classifier, begins=True), VaeStep(run=classifier, epochs=3, seed=3)
    with pytest.raises(KeyboardInterrupt):
        train_vae(chain, step)
    run_id = train_vae(chain, step)
    assert ended == [run_id] * 3
    assert [each.step for each in module_store.client.get_metric_history(run_id, "steps")] == [0, 1, 2]
    assert module_store.client.get_run(run_id).info.status == "FINISHED"
    for made in (run_id, chain.run_id):
        mlflow.delete_run(made)


def test_an_interrupted_sweep_goes_on_with_the_fine_tunings_that_are_left(chain, corrected, module_store, monkeypatch):
    fine_tune, tuned = correct_step._fine_tune, []

    def interrupted(tuner, patient):
        tuned.append(tuner)
        if len(tuned) == 2:
            raise KeyboardInterrupt
        fine_tune(tuner, patient)

    monkeypatch.setattr(correct_step, "_fine_tune", interrupted)
    step = CorrectStep(run=chain.run_id, labels="source", seed=1, **MENDING)
    with pytest.raises(KeyboardInterrupt):
        correct(Chain.of(chain.run_id), step)
    run_id = correct(Chain.of(chain.run_id), step)
    whole = len(mlflow.load_table("sweep.json", run_ids=[run_id])) - 1  # what was before was not tuned
    assert len(tuned) == whole + 1
    assert module_store.client.get_run(run_id).info.status == "FINISHED"
    mlflow.delete_run(run_id)


def test_defuse_takes_all_steps_and_none_of_them_twice(classifier, module_store, capsys):
    # Two epochs make a VAE whose pictures nobody reads: nothing is found, and that is a result.
    told = {"vae_epochs": 2, "components": 2, **STEPS}
    defuse(DefuseSettings(run=classifier, **told))
    parent = module_store.runs("defuse")[-1]
    assert "Warning: that is far below" in capsys.readouterr().err
    defuse(DefuseSettings(run=parent.info.run_id, **told))
    said = capsys.readouterr().err
    assert [f"Step {name} has finished before." in said for name in ("vae", "identify", "distill")] == [True] * 3
    assert module_store.client.get_run(parent.info.run_id).info.status == "FINISHED"
    for run in module_store.client.search_runs(
        [module_store.experiment], f"tags.`actionflow.defuse_run` = '{parent.info.run_id}'"
    ):
        mlflow.delete_run(run.info.run_id)
    mlflow.delete_run(parent.info.run_id)


def test_nothing_found_is_a_result_down_to_the_last_step(chain, capsys):
    faint = {**STEPS, "a": 1e9, "b": 1e9}
    made = [identify(chain, IdentifyStep(run=chain.run_id, **faint))]
    made.append(distill(chain, DistillStep(run=chain.run_id, components=4)))
    made.append(correct(chain, CorrectStep(run=chain.run_id, **MENDING)))
    said = capsys.readouterr().err
    assert "0 counterexamples around 0 of" in said
    assert "too few to group: there is no scenario" in said
    assert "none of them a failure: there is nothing to mend" in said
    for run_id in made:
        mlflow.delete_run(run_id)


# Bad input


def test_a_run_without_a_logged_model_is_told(module_store):
    bare = train(**SMALL, run_name="bare")
    (logged,) = module_store.client.search_logged_models([module_store.experiment], f"source_run_id = '{bare}'")
    module_store.client.delete_logged_model(logged.model_id)
    with pytest.raises(DataError, match="has no logged model"):
        train_vae(Chain.of(bare, begins=True), VaeStep(run=bare, epochs=1))


def test_a_run_of_somebody_elses_loop_is_no_classifier_of_ours(module_store):
    own = three_samples("own")
    with pytest.raises(DataError, match="is no training of a classifier"):
        Chain.of(own, begins=True)


def test_a_step_before_its_time_says_what_comes_first(module_store, classifier):
    young = train(limit=160, epochs=1, run_name="young")
    with pytest.raises(StoreError, match=r"has no finished step vae in its chain .*: type mlflow run . -e vae -P run="):
        identify(Chain.of(young, begins=True), IdentifyStep(run=young))


def test_labelling_half_done_says_how_far(chain, module_store):
    distilled = chain.finished("distill")
    assert "Label them at /actionflow/scenarios/" in progress_of(distilled)
    keep_labels(module_store.client, distilled, [ScenarioLabel(1, "class", 3)], "anna")
    total = len(scenarios_in(distilled))
    assert total > 1
    with pytest.raises(QueryError, match=rf"1 of {total} scenarios are labelled \(anna 1\), missing 2"):
        correct(chain, CorrectStep(run=chain.run_id, **MENDING))


def test_labels_outside_the_classes_are_refused_before_anything_is_kept(chain, module_store):
    distilled = chain.finished("distill")
    before = labels_for(module_store.client, distilled)
    with pytest.raises(ActionFlowError, match="scenario 1: '77' is no class"):
        keep_labels(module_store.client, distilled, [ScenarioLabel(1, "class", 77)], "anna")
    assert labels_for(module_store.client, distilled) == before


# Labels


def invoke(*words):
    return CliRunner().invoke(cli, words, catch_exceptions=False)


def test_sheets_and_csv_lead_to_labels_in_sql(chain, classifier, tmp_path):
    folder = tmp_path / "sheets"
    assert "fill in its column answer" in invoke("scenarios", classifier, "--sheets", str(folder)).stderr
    lines = (folder / "labels.csv").read_text().splitlines()
    header = lines[0].split(",")
    filled = [lines[0]]
    for line in lines[1:]:
        number = line.split(",")[0]
        filled.append(",".join([number, "", "", "fine", *[""] * (len(header) - 4)]))
    (folder / "labels.csv").write_text("\n".join(filled) + "\n")
    said = invoke("scenarios", classifier, "--labels", str(folder / "labels.csv"), "--by", "ben").stderr
    total = len(lines) - 1
    assert f"{total} of {total} scenarios are labelled" in said
    labels = actionflow.query("select * from scenario_labels where labelled_by = 'ben'", runs=classifier).to_pylist()
    assert {row["answer"] for row in labels} == {"fine"}
    rows = actionflow.query("scenarios", runs=chain.run_id).to_pylist()
    assert all(row["called_fine"] >= 1 for row in rows)


def test_a_later_word_on_the_whole_scenario_takes_back_those_on_its_samples(chain, module_store):
    distilled = find_runs([run_of(chain, "distill").info.run_id])[0]
    for label in (ScenarioLabel(1, "class", 3), ScenarioLabel(1, "class", 4, sample=2)):
        keep_labels(module_store.client, distilled, [label], "carl")
    assert [row["sample"] for row in said_by("carl", module_store, distilled)] == [None, 2]
    keep_labels(module_store.client, distilled, [ScenarioLabel(1, "none")], "carl")
    assert [row["answer"] for row in said_by("carl", module_store, distilled)] == ["none"]


def said_by(name, store, distilled):
    return [row for row in labels_for(store.client, distilled) if row["labelled_by"] == name]


@pytest.fixture(scope="module")
def server(module_store, chain):
    running = Server(module_store.folder, ("-m", "actionflow.cli", "serve"), module_store.environment)
    running.start()
    yield running
    running.stop()


def test_the_page_has_a_wall_a_key_for_each_class_and_keeps_what_is_said(chain, server, module_store):
    distilled = chain.finished("distill")
    page = f"{server.uri}/actionflow/scenarios/{distilled.run_id}"
    shown = requests.get(page, params={"whose": "dora"}).text
    assert shown.count('<label class="cell">') == 10
    assert all(f'name="answer" value="{word}"' in shown for word in [*map(str, range(10)), "none", "fine"])
    assert requests.get(f"{page}/1/1.png").content.startswith(b"\x89PNG")
    sent = {"scenario": "1", "answer": "7", "labelled_by": "dora"}
    target = f"{server.uri}/ajax-api/actionflow/scenarios/{distilled.run_id}"
    answered = requests.post(target, sent, headers={"Origin": server.uri})
    assert answered.url.endswith("?after=1&whose=dora")
    ticked = requests.post(target, {**sent, "answer": "none", "sample_2": "1"}, headers={"Origin": server.uri})
    assert "You said <em" in ticked.text
    rows = said_by("dora", module_store, distilled)
    assert [(row["scenario"], row["sample"], row["answer"], row["label"]) for row in rows] == [
        (1, None, "class", 7),
        (1, 2, "none", None),
    ]


def test_the_page_takes_no_form_from_elsewhere_and_no_class_that_is_none(chain, server, module_store):
    distilled = chain.finished("distill")
    target = f"{server.uri}/ajax-api/actionflow/scenarios/{distilled.run_id}"
    fields = {"scenario": "1", "answer": "7", "labelled_by": "eve"}
    assert requests.post(target, fields, headers={"Origin": "https://elsewhere.example"}).status_code == 403
    refused = requests.post(target, {**fields, "answer": "77"}, headers={"Origin": server.uri})
    assert refused.status_code == 400
    assert "is no class" in refused.text
    assert not said_by("eve", module_store, distilled)
