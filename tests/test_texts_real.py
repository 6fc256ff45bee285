"""Real texts, when ACTIONFLOW_DATA names a folder with them."""

import os
from pathlib import Path

import numpy as np
import pytest

from actionflow.training.texts import load_texts

DATA = Path(os.environ.get("ACTIONFLOW_DATA", "nowhere"))


def needs(folder):
    return pytest.mark.skipif(not (DATA / folder).is_dir(), reason=f"ACTIONFLOW_DATA names no folder with {folder}")


def sizes(dataset):
    return {part: len(samples) for part, samples in dataset.parts.items()}


@needs("emotion")
def test_the_whole_emotion_corpus_has_its_official_sizes_and_labels():
    dataset = load_texts("emotion", str(DATA))
    assert sizes(dataset) == {"train": 16000, "validation": 2000, "test": 2000}
    assert np.bincount(dataset.parts["train"].labels).tolist() == [4666, 5362, 1304, 2159, 1937, 572]
    assert dataset.parts["train"].columns["text"][0] == "i didnt feel humiliated"


@needs("snli-subset")
def test_a_real_premise_stands_beside_its_hypothesis():
    dataset = load_texts("mnli", str(DATA / "snli-subset"))
    assert sizes(dataset) == {"train": 9842, "test": 9824}
    train = dataset.parts["train"]
    assert train.columns["context"][2] == "two women are embracing while holding to go packages"
    assert train.columns["text"][2] == "the men are fighting outside a deli"
    assert dataset.class_names[train.labels[2]] == "contradiction"


@needs("samsum")
def test_every_real_dialogue_but_the_empty_one_has_its_summary():
    dataset = load_texts("samsum", str(DATA))
    assert sizes(dataset) == {"train": 14731, "validation": 818, "test": 819}
    assert dataset.parts["test"].sample_ids[-1] == 14732 + 818 + 819 - 1
    assert "1 row of train without a dialogue" in dataset.source


@needs("squad-v1.1-dev")
def test_every_real_answer_stands_in_its_passage():
    dataset = load_texts("squad", str(DATA))
    assert sum(sizes(dataset).values()) == 10570
    test = dataset.parts["test"]
    rows = zip(test.columns["context"], test.metadata["answers"], test.metadata["answer_starts"], strict=True)
    for context, answers, starts in rows:
        assert [context[at : at + len(answer)] for answer, at in zip(answers, starts, strict=True)] == answers
