"""A small language model with random weights and a tokenizer trained on the data: no network, no download."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertConfig, PreTrainedTokenizerFast, T5Config

PIECES = 4000
# More texts would not change a small vocabulary, only the wait.
TEXTS_FOR_VOCABULARY = 20_000
LONGEST = 512


def reading_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Word pieces in lower case, as BERT reads: [CLS] text [SEP] other text [SEP]."""
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    tokenizer = _trained(texts, special, lowercase=True)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=_with_ids(tokenizer, "[CLS]", "[SEP]"),
    )
    return _wrapped(tokenizer, special, ["input_ids", "token_type_ids", "attention_mask"])


def writing_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Word pieces that keep their case, as T5 reads and writes: text </s>."""
    special = {"pad_token": "<pad>", "unk_token": "<unk>", "eos_token": "</s>"}
    tokenizer = _trained(texts, special, lowercase=False)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A $B </s>", special_tokens=_with_ids(tokenizer, "</s>")
    )
    return _wrapped(tokenizer, special, ["input_ids", "attention_mask"])


def bert_config(tokenizer: PreTrainedTokenizerFast, **more: Any) -> BertConfig:
    """Two layers of 128."""
    return BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=512,
        max_position_embeddings=LONGEST,
        pad_token_id=tokenizer.pad_token_id,
        **more,
    )


def t5_config(tokenizer: PreTrainedTokenizerFast) -> T5Config:
    """Two layers of 128 that read, and two that write."""
    start: dict[str, Any] = {"decoder_start_token_id": tokenizer.pad_token_id}  # a setting of all models that write
    return T5Config(
        vocab_size=len(tokenizer),
        d_model=128,
        d_kv=32,
        d_ff=256,
        num_layers=2,
        num_heads=4,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        **start,
    )


def _trained(texts: Iterable[str], special: dict[str, str], lowercase: bool) -> Tokenizer:
    """A tokenizer of word pieces; the same texts give the same one.

    The library's own trainer of word pieces breaks ties at random. Byte pairs it does not, so their pieces are taken,
    each at the start of a word and inside one.
    """
    learner = _split_like_bert(Tokenizer(models.BPE()), lowercase)
    trainer = trainers.BpeTrainer(vocab_size=PIECES, show_progress=False)
    learner.train_from_iterator(islice(texts, TEXTS_FOR_VOCABULARY), trainer)
    pieces = sorted(learner.get_vocab())
    words = [*special.values(), *pieces, *(f"##{piece}" for piece in pieces)]
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token=special["unk_token"]))
    tokenizer.decoder = decoders.WordPiece()
    return _split_like_bert(tokenizer, lowercase)


def _split_like_bert(tokenizer: Tokenizer, lowercase: bool) -> Tokenizer:
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def _with_ids(tokenizer: Tokenizer, *words: str) -> list[tuple[str, int]]:
    return [(word, tokenizer.get_vocab()[word]) for word in words]


def _wrapped(tokenizer: Tokenizer, special: dict[str, str], inputs: list[str]) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, model_max_length=LONGEST, model_input_names=inputs, **special
    )
