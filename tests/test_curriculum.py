"""From scores to an order, from an order to a training, and the way back."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import PROJECT, train

import actionflow
from actionflow.errors import ActionFlowError, DataError
from actionflow.ordering import plan
from actionflow.store.marks import Mark, add_marks
from actionflow.training.curriculum import Curriculum
from actionflow.training.data import Samples
from actionflow.training.settings import VisionSettings

TINY = {"limit": 160, "epochs": 2}


def samples(count):
    ids = np.arange(100, 100 + count)
    return Samples(ids, np.zeros((count, 1, 2, 2), np.uint8), np.zeros(count, np.int64), [""] * count, {})


def made(ids, stages, pacing="full", pacing_epochs=1):
    table = pa.table({"position": np.arange(len(ids)), "sample_id": ids, "score": np.zeros(len(ids)), "stage": stages})
    settings = VisionSettings(pacing=pacing, pacing_epochs=pacing_epochs)
    return Curriculum.from_table(table, samples(10), settings)


EIGHT = [107, 103, 101, 105, 100, 102, 104, 106]
TWO_STAGES = [0, 0, 0, 0, 1, 1, 1, 1]


def test_an_epoch_shuffles_within_stages_and_never_across():
    curriculum = made(EIGHT, TWO_STAGES)
    orders = [(curriculum.order(seed=3, epoch=epoch) + 100).tolist() for epoch in range(5)]
    for order in orders:
        assert set(order[:4]) == set(EIGHT[:4])
        assert set(order[4:]) == set(EIGHT[4:])
    assert len({tuple(order) for order in orders}) > 1


def test_a_stage_of_each_sample_keeps_the_order_as_given():
    order = made(EIGHT, list(range(8))).order(seed=0, epoch=4)
    assert (order + 100).tolist() == EIGHT


def test_the_same_seed_and_epoch_give_the_same_order():
    first, second = (made(EIGHT, TWO_STAGES).order(7, 2).tolist() for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("pacing", "counts"),
    [
        ("full", [8, 8, 8, 8, 8]),
        ("linear", [2, 4, 5, 7, 8]),  # 0.2, 0.4, 0.6, 0.8 and all of 8, rounded up
        ("root", [2, 5, 6, 7, 8]),  # sqrt(0.04 + 0.96 k / 4) of 8, rounded up
        ("step", [4, 4, 4, 4, 8]),
    ],
)
def test_pacing_decides_how_many_are_open(pacing, counts):
    curriculum = made(EIGHT, TWO_STAGES, pacing, pacing_epochs=4)
    assert [curriculum.open_at(epoch) for epoch in range(5)] == counts
    assert curriculum.open_at(100) == 8
    assert [curriculum.all_open(epoch) for epoch in range(5)] == [count == 8 for count in counts]


def test_pacing_opens_from_the_first_position_on():
    curriculum = made(EIGHT, list(range(8)), "linear", pacing_epochs=4)
    assert (curriculum.order(0, 0) + 100).tolist() == EIGHT[:2]


@pytest.mark.parametrize(
    ("ids", "stages", "said"),
    [
        ([100, 999], [0, 0], "1 of the curriculum's 2 samples are not in this training split .*sample 999"),
        ([100, 100], [0, 0], "names a sample more than once"),
        ([100, 101], [1, 0], "stages go back"),
    ],
)
def test_a_curriculum_that_cannot_be_meant_is_refused(ids, stages, said):
    with pytest.raises(DataError, match=said):
        made(ids, stages)


@pytest.fixture(scope="module")
def source(module_store):
    return train(**TINY, run_name="source")


@pytest.fixture(scope="module")
def half(module_store, source):
    """The address of the easier half of the source's training samples, in four stages."""
    return actionflow.curriculum("source", fraction=0.5, stages=4)


def artifact(store, address):
    run_id, _, path = address.removeprefix("runs:/").partition("/")
    return store.artifacts(run_id) / path


def test_the_easier_half_is_the_half_with_less_action(module_store, source, half):
    rows = pq.read_table(artifact(module_store, half)).to_pandas()
    scores = pq.read_table(module_store.artifacts(source) / "actionflow/scores/train.parquet").to_pandas()
    easiest = scores.sort_values(["action", "sample_id"])["sample_id"].tolist()[:80]
    assert half == f"runs:/{source}/actionflow/curriculum/easy-first-action-fraction0.5-stages4.parquet"
    assert rows["sample_id"].tolist() == easiest
    assert rows["position"].tolist() == list(range(80))
    assert rows["stage"].value_counts().tolist() == [20, 20, 20, 20]


def test_the_file_says_where_it_came_from(module_store, source, half):
    facts = json.loads(pq.read_schema(artifact(module_store, half)).metadata[b"actionflow"])
    assert (facts["kind"], facts["run_id"], facts["split"]) == ("curriculum", source, "train")
    assert facts["parameters"]["fraction"] == 0.5
    assert facts["sql"] == (PROJECT / "queries" / "curriculum.sql").read_text()


def test_curricula_are_a_view(half):
    with actionflow.connect("source") as session:
        rows = session.sql("select name, count(*) as samples from curricula group by name order by name").to_pylist()
    assert {"name": "easy-first-action-fraction0.5-stages4", "samples": 80} in rows


def test_retraining_uses_the_subset_alone_and_leads_back(module_store, source, half):
    run_id = train(**TINY, curriculum=half, pacing="step", pacing_epochs=2, run_name="retrained")
    folder = module_store.artifacts(run_id) / "actionflow" / "dynamics" / "train"
    chosen = pq.read_table(artifact(module_store, half))
    first = set(pq.read_table(folder / "epoch-0000.parquet")["sample_id"].to_pylist())
    assert first == set(chosen.filter(pa.compute.equal(chosen["stage"], 0))["sample_id"].to_pylist())
    run = module_store.client.get_run(run_id)
    assert run.data.tags["actionflow.curriculum"] == half
    assert run.data.tags["actionflow.curriculum_run"] == source
    (lesson,) = [each for each in run.inputs.dataset_inputs if each.dataset.name == "curriculum"]
    told = json.loads(lesson.dataset.source)["tags"]
    assert (told["run_id"], told["query"]) == (source, "curriculum")


def test_the_lineage_is_followed_back(module_store, source, half):
    from click.testing import CliRunner

    from actionflow.cli import cli

    train(**{**TINY, "epochs": 1}, curriculum=half, run_name="child")
    shown = CliRunner().invoke(cli, ["runs", "--lineage", "--format", "json"])
    rows = {row["name"]: row["lineage"] for row in json.loads(shown.stdout)}
    assert rows["child"] == "source → [easy-first-action-fraction0.5-stages4] → child"
    assert rows["source"] == "source"


def test_a_curriculum_for_other_data_is_refused_with_both_digests(module_store, source, half):
    known = module_store.client.get_run(source).data.tags["actionflow.dataset_digest"]
    with pytest.raises(
        SystemExit, match=rf"is for other data: its data set's digest is {known} .*this data's is [0-9a-f]{{16}}"
    ):
        train(limit=100, epochs=1, curriculum=half)


def test_steps_end_a_training_exactly(module_store):
    run_id = train(limit=160, epochs=50, steps=7, batch_size=32, stop_patience=0)
    steps = [point.value for point in module_store.client.get_metric_history(run_id, "steps")]
    assert steps == [5, 7]


def test_a_run_without_its_training_split_says_how_to_record_it(module_store):
    train(**{**TINY, "epochs": 1}, record="val", run_name="only val")
    with pytest.raises(ActionFlowError, match=r"only val has no split train \(found: val\).*record=both"):
        actionflow.curriculum("only val")


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"order": "easy"}, "order must be easy-first, hard-first or random, found easy"),
        ({"fraction": 0}, "fraction must be above 0 and at most 1, found 0"),
        ({"drop_hardest": 1}, "drop-hardest must be from 0 to below 1, found 1"),
        ({"stages": 0}, "stages must be at least 1, found 0"),
        ({"score": "loss"}, "there is no score loss"),
        ({"name": "a/b"}, "a curriculum's name has letters"),
    ],
)
def test_what_cannot_be_meant_is_refused(source, chosen, said):
    with pytest.raises(ActionFlowError, match=said):
        actionflow.curriculum("source", **chosen)


def test_the_same_curriculum_is_written_once(source, half):
    assert actionflow.curriculum("source", fraction=0.5, stages=4) == half


def test_a_name_is_taken_once(source, half):
    with pytest.raises(ActionFlowError, match=r"has another curriculum \S+ already"):
        actionflow.curriculum("source", fraction=0.25, stages=4, name="easy-first-action-fraction0.5-stages4")


def test_a_usual_name_gets_a_number_once_more_samples_are_marked(module_store, source):
    rows = actionflow.query(
        "select sample_id from scores where split = 'train' order by sample_id limit 2", runs=source
    )
    digest = module_store.client.get_run(source).data.tags["actionflow.dataset_digest"]
    names = []
    for sample_id in rows["sample_id"].to_pylist():
        add_marks(module_store.client, module_store.experiment, digest, [Mark(sample_id, "unusable")], "ann")
        names.append(Path(actionflow.curriculum("source", without_marked="unusable")).stem)
    assert names == ["easy-first-action-without-unusable", "easy-first-action-without-unusable-2"]


@pytest.mark.parametrize(("stages", "pacing"), [(1, ""), (4, " -P pacing=step")])
def test_the_command_to_retrain_trains_as_the_source_was_trained(source, stages, pacing):
    with actionflow.connect("source") as session:
        made = plan(session, "source", stages=stages)
    assert made.command("runs:/x") == f"mlflow run . -e digits -P epochs=2 -P limit=160 -P curriculum=runs:/x{pacing}"
