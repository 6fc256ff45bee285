"""The parts of a text training: models by name, tokens, answers."""

import made_up_texts
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2ForSequenceClassification,
    PreTrainedTokenizerFast,
)

from actionflow.errors import DataError, SettingsError
from actionflow.training.data import make_splits
from actionflow.training.language import encode, load_language_model
from actionflow.training.language.answers import exact_match, f1
from actionflow.training.language.trainer import Ordered, _grouped
from actionflow.training.settings import TextSettings
from actionflow.training.texts import load_texts


@pytest.fixture(scope="module")
def emotion(tmp_path_factory):
    return load_texts("emotion", str(made_up_texts.emotion(tmp_path_factory.mktemp("texts"))))


@pytest.fixture(scope="module")
def squad(tmp_path_factory):
    return load_texts("squad", str(made_up_texts.squad(tmp_path_factory.mktemp("questions"))))


def word_tokenizer(**special):
    """Every word is a token."""
    words = sorted({word for words in made_up_texts.FEELINGS.values() for word in words} | {"i", "feel", "today"})
    vocabulary = {word: place for place, word in enumerate(["[UNK]", "[END]", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", **special)


def saved(folder, model, tokenizer):
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def gpt2(size):
    return GPT2ForSequenceClassification(GPT2Config(vocab_size=size, n_embd=16, n_layer=1, n_head=1, num_labels=6))


def test_a_tokenizer_without_padding_pads_with_its_end(tmp_path, emotion):
    tokenizer = word_tokenizer(eos_token="[END]")
    language = load_language_model(saved(tmp_path, gpt2(len(tokenizer)), tokenizer), emotion)
    assert language.tokenizer.pad_token == "[END]"
    assert language.model.config.pad_token_id == language.tokenizer.pad_token_id


def test_a_tokenizer_with_neither_is_told(tmp_path, emotion):
    tokenizer = word_tokenizer()
    folder = saved(tmp_path, gpt2(len(tokenizer)), tokenizer)
    with pytest.raises(SettingsError, match="neither padding nor the end of a text"):
        load_language_model(folder, emotion)


def test_a_model_out_of_reach_names_both_ways_out(emotion):
    with pytest.raises(DataError, match=r"not on this machine.*model=<its folder>.*model=tiny"):
        load_language_model("nobody/no-such-model", emotion)


def test_a_model_that_cannot_write_is_told(tmp_path):
    folder = made_up_texts.samsum(tmp_path)
    tokenizer = word_tokenizer(pad_token="[END]")
    config = BertConfig(vocab_size=len(tokenizer), hidden_size=8, num_hidden_layers=1, num_attention_heads=1)
    place = saved(tmp_path / "model", BertForSequenceClassification(config), tokenizer)
    with pytest.raises(SettingsError, match="cannot write texts"):
        load_language_model(place, load_texts("samsum", str(folder)))


def test_more_tokens_than_the_model_takes_are_refused(emotion):
    with pytest.raises(SettingsError, match="at most -P max_length=512"):
        load_language_model("tiny", emotion, max_length=600)


def test_long_texts_are_counted_and_cut(emotion):
    language = load_language_model("tiny", emotion, max_length=8)
    encoded = encode(emotion.parts["train"], emotion, language, TextSettings())
    whole = encode(emotion.parts["train"], emotion, load_language_model("tiny", emotion), TextSettings())
    assert encoded.truncated == np.count_nonzero(whole.lengths > 8) > 0
    assert encoded.lengths.max() == 8
    assert whole.truncated == 0


def test_evaluation_goes_from_long_to_short(emotion):
    language = load_language_model("tiny", emotion)
    encoded = encode(emotion.parts["test"], emotion, language, TextSettings())
    ordered = encoded.by_length()
    assert np.all(np.diff(ordered.lengths) <= 0)
    assert {item["sample_id"] for item in ordered.items} == set(emotion.parts["test"].sample_ids.tolist())


def test_an_answer_is_found_again_at_its_tokens(squad):
    language = load_language_model("tiny", squad)
    samples = squad.parts["train"]
    encoded = encode(samples, squad, language, TextSettings())
    for place, item in enumerate(encoded.items):
        offsets = encoded.offsets[place]
        start, end = offsets[item["start_positions"]][0], offsets[item["end_positions"]][1]
        assert samples.columns["context"][place][start:end] == samples.columns["target_text"][place]


def test_an_answer_that_was_cut_away_points_at_the_first_place(squad):
    language = load_language_model("tiny", squad, max_length=24)
    encoded = encode(squad.parts["train"], squad, language, TextSettings())
    assert encoded.truncated == len(encoded)
    lost = [item for item in encoded.items if item["start_positions"] == 0]
    assert encoded.answers_lost == len(lost) > 0
    assert all(item["end_positions"] == 0 for item in lost)


def test_the_order_of_an_epoch_is_the_one_it_was_given():
    items = Ordered([{"n": n} for n in range(5)], lambda epoch: np.arange(epoch + 1)[::-1], all_of=5)
    assert len(items) == 5
    items.set_epoch(2)
    assert [items[place]["n"] for place in range(len(items))] == [2, 1, 0]


def test_batches_by_length_have_little_padding_and_lose_nobody():
    lengths = [3, 50] * 400
    order = _grouped(lengths, batch_size=8, seed=0, epoch=0)
    batches = [[lengths[place] for place in order[start : start + 8]] for start in range(0, 800, 8)]
    assert sorted(order) == list(range(800))
    assert sum(len(set(batch)) == 1 for batch in batches) >= 90
    assert list(_grouped(lengths, 8, seed=0, epoch=0)) == list(order) != list(_grouped(lengths, 8, seed=0, epoch=1))


WORDS = some.lists(some.sampled_from(["the", "a", "U.S.", "army", "1990", "in", "Army!"]), max_size=6).map(" ".join)


@settings(deadline=None)  # the first call imports torchmetrics
@given(WORDS, some.lists(WORDS, min_size=1, max_size=3))
def test_answers_are_judged_as_squad_judges_them(answer, right):
    from torchmetrics.functional.text import squad as official

    target = {"answers": {"answer_start": [0] * len(right), "text": right}, "id": "q"}
    told = official([{"prediction_text": answer, "id": "q"}], [target])
    assert 100 * exact_match(answer, right) == pytest.approx(float(told["exact_match"]))
    assert 100 * f1(answer, right) == pytest.approx(float(told["f1"]), rel=1e-5)


def test_a_tiny_model_is_drawn_by_the_seed(emotion):
    weights = []
    for _ in range(2):
        torch.manual_seed(3)
        weights.append(next(load_language_model("tiny", emotion).model.parameters()))
    assert torch.equal(*weights)


def test_the_official_splits_of_texts(emotion):
    splits = make_splits(emotion, "official")
    assert {name: len(each) for name, each in splits.items()} == {"train": 60, "val": 24, "test": 24}
