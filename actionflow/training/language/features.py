"""What a language model knows of a text just before it decides, as one vector."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader

from actionflow.training.language.encoding import Encoded
from actionflow.training.models import PenultimateFeatures

BATCH = 64
# What the model reads; targets and ids are not for it.
NOT_READ = ("labels", "start_positions", "end_positions", "decoder_input_ids", "sample_id")


def text_features(
    model: Any, encoded: Encoded, collator: Callable[[list[Any]], Any]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Sample ids, and for each what enters the head; of a model that writes, the mean of what its encoder made.

    A head that sees every word gets the mean over the words.
    """
    model.eval()
    ids: list[int] = []
    found: list[Tensor] = []
    with torch.inference_mode():
        for sample_ids, inputs in read_batches(encoded.by_length(), collator, model.device):
            ids += sample_ids
            found.append(_features(model, inputs).float().cpu())
    return np.array(ids, np.int64), torch.cat(found).numpy()


def read_batches(
    encoded: Encoded, collator: Callable[[list[Any]], Any], device: torch.device
) -> Iterator[tuple[list[int], dict[str, Tensor]]]:
    """Batches of what the model reads, with the ids of their samples."""

    def collate(items: list[Any]) -> tuple[list[int], dict[str, Tensor]]:
        read = [{name: value for name, value in item.items() if name not in NOT_READ} for item in items]
        batch = collator(read)
        return [item["sample_id"] for item in items], dict(batch)

    for ids, batch in DataLoader(encoded, batch_size=BATCH, collate_fn=collate):
        yield ids, {name: values.to(device) for name, values in batch.items() if values is not None}


def _features(model: Any, inputs: dict[str, Tensor]) -> Tensor:
    if model.config.is_encoder_decoder:
        return _mean(model.get_encoder()(**inputs).last_hidden_state, inputs["attention_mask"])
    with PenultimateFeatures(model, flat=False) as features:
        model(**inputs)
    last = features.last
    return _mean(last, inputs["attention_mask"]) if last.ndim == 3 else last


def _mean(words: Tensor, mask: Tensor) -> Tensor:
    weights = mask.unsqueeze(2).to(words.dtype)
    return (words * weights).sum(dim=1) / weights.sum(dim=1)
