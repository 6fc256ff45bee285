"""Data sets from the hub: as the real `datasets` library keeps them on this machine, and without a network."""

import subprocess
import sys
import time

import datasets
import pyarrow as pa
import pytest

from actionflow.errors import DataError
from actionflow.training.texts import hub, load_texts

EMOTIONS = ["sadness", "joy", "love", "anger", "fear", "surprise"]
RELATIONS = ["entailment", "neutral", "contradiction"]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of the hub's of our own, and a hub that answers to nobody."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("ACTIONFLOW_DATA", str(tmp_path / "nothing"))
    return tmp_path / "cache"


def keep(cache, name, config, features, parts):
    """Put a data set into the cache as `datasets` itself does after a download."""

    class Kept(datasets.ArrowBasedBuilder):
        BUILDER_CONFIGS = [datasets.BuilderConfig(config)]  # noqa: RUF012

        def _info(self):
            return datasets.DatasetInfo(features=features)

        def _split_generators(self, manager):
            return [datasets.SplitGenerator(name=part, gen_kwargs={"rows": rows}) for part, rows in parts.items()]

        def _generate_tables(self, rows):
            yield 0, pa.table(rows, schema=features.arrow_schema)

    kept = Kept(cache_dir=str(cache), dataset_name=name.split("/")[1], repo_id=name, config_name=config, hash="0")
    kept.download_and_prepare()


def test_what_was_once_downloaded_is_read_without_a_network(cache):
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=EMOTIONS)})
    parts = {
        "train": {"text": ["a", "b", "c"], "label": [0, 5, 1]},
        "validation": {"text": ["d"], "label": [2]},
        "test": {"text": ["e"], "label": [3]},
    }
    keep(cache, "dair-ai/emotion", "split", features, parts)
    dataset = load_texts("emotion")
    assert {part: samples.sample_ids.tolist() for part, samples in dataset.parts.items()} == {
        "train": [0, 1, 2],
        "validation": [3],
        "test": [4],
    }
    assert dataset.parts["train"].labels.tolist() == [0, 5, 1]
    assert dataset.parts["train"].keys[0] == "train/0"
    assert dataset.source == "dair-ai/emotion from the hub"


def test_the_matched_validation_part_of_mnli_is_held_out(cache):
    """Its test parts hide their labels, its mismatched part is of other genres."""
    text, label = datasets.Value("string"), datasets.ClassLabel(names=RELATIONS)
    features = datasets.Features({"premise": text, "hypothesis": text, "label": label, "idx": datasets.Value("int32")})

    def pairs(labels):
        places = range(len(labels))
        return {"premise": ["p"] * len(labels), "hypothesis": ["h"] * len(labels), "label": labels, "idx": places}

    parts = {
        "train": pairs([0, 1, 2]),
        "validation_matched": pairs([2, 1]),
        "validation_mismatched": pairs([0]),
        "test_matched": pairs([-1, -1]),
        "test_mismatched": pairs([-1]),
    }
    keep(cache, "nyu-mll/glue", "mnli", features, parts)
    dataset = load_texts("mnli")
    assert {part: samples.labels.tolist() for part, samples in dataset.parts.items()} == {
        "train": [0, 1, 2],
        "test": [2, 1],
    }
    assert "validation is held out as test" in dataset.source
    assert "validation_mismatched; test_mismatched; test, which has no labels" in dataset.source


def test_squad_has_its_answers_as_in_the_official_file(cache):
    text = datasets.Value("string")
    answers = {"text": datasets.List(text), "answer_start": datasets.List(datasets.Value("int32"))}
    features = datasets.Features({"id": text, "title": text, "context": text, "question": text, "answers": answers})
    rows = {
        "id": ["q1"],
        "title": ["Cats"],
        "context": ["The cat sat."],
        "question": ["Who?"],
        "answers": [{"text": ["The cat", "cat"], "answer_start": [0, 4]}],
    }
    keep(cache, "rajpurkar/squad", "plain_text", features, {"train": rows, "validation": rows})
    test = load_texts("squad").parts["test"]
    assert test.columns["target_text"] == ["The cat"]
    assert test.metadata == {"title": ["Cats"], "answers": [["The cat", "cat"]], "answer_starts": [[0, 4]]}


@pytest.mark.parametrize("name", ["emotion", "mnli", "samsum", "squad"])
def test_without_a_copy_and_a_network_both_ways_out_are_told_soon(name, tmp_path, capfd):
    start = time.monotonic()
    with pytest.raises(DataError, match=r"type -P data_dir=<folder with .*, or run once with a network\.") as told:
        load_texts(name)
    assert time.monotonic() - start < 2 * hub.PATIENCE
    assert f"{name} was not found in {tmp_path / 'nothing'} or {tmp_path / 'nothing' / name}" in str(told.value)
    assert "\n" not in str(told.value)
    assert capfd.readouterr() == ("", "")


def test_after_a_try_the_hub_may_be_asked_again():
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE
    with hub.soon_given_up() as reachable:
        assert (reachable, constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE) == (False, True, True)
    assert before == (constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE)


def test_importing_the_package_loads_neither_datasets_nor_the_hub_nor_torch():
    heavy = "[name for name in ('datasets', 'huggingface_hub', 'torch', 'transformers') if name in sys.modules]"
    code = f"import sys, actionflow.training.texts; print({heavy})"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
