"""Let a model write, and tell how near it came to the target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from rouge_score.rouge_scorer import RougeScorer

from actionflow.training.language.encoding import Encoded
from actionflow.training.language.features import read_batches

ROUGE = ("rouge1", "rouge2", "rougeL")


def write_texts(
    model: Any, tokenizer: Any, encoded: Encoded, collator: Callable[[list[Any]], Any], longest: int
) -> dict[int, str]:
    """What the model writes for each sample, by sample id: the likeliest word at every step."""
    model.eval()
    written: dict[int, str] = {}
    with torch.inference_mode():
        for ids, inputs in read_batches(encoded.by_length(), collator, model.device):
            tokens = model.generate(**inputs, max_new_tokens=longest, do_sample=False, num_beams=1)
            written.update(zip(ids, tokenizer.batch_decode(tokens, skip_special_tokens=True), strict=True))
    return written


def rouge(written: dict[int, str], targets: dict[int, str]) -> dict[str, dict[int, float]]:
    """ROUGE-1, 2 and L (F-measure, stemmed) of every text that was written, by sample id."""
    scorer = RougeScorer(list(ROUGE), use_stemmer=True)
    found = {number: scorer.score(targets[number], text) for number, text in written.items()}
    return {name: {number: each[name].fmeasure for number, each in found.items()} for name in ROUGE}
