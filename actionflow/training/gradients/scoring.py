"""VoG and GraNd of every sample of a split, from the weights that a training kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import grad, vmap
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from actionflow.errors import SettingsError
from actionflow.training.gradients.keeping import Epochs, KeptWeights, Weights, kept_epochs, weights_of
from actionflow.training.gradients.reading import Reader, Tensors

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
# Is told after every step how many samples were passed over.
Advance = Callable[[int], None]

# Gradients that are held at once, as float32 numbers: a quarter of a gigabyte.
NUMBERS_AT_ONCE = 64_000_000
# More samples at once make GraNd no faster, however small the model.
MOST_SAMPLES = 16
MOST_INPUTS = 4096


def gradient_scores(
    reader: Reader, kept: KeptWeights, last: int, wanted: tuple[str, ...], advance: Advance = lambda _: None
) -> dict[str, Floats]:
    """The columns of the wanted scores, of a training whose last epoch was `last`; one value a sample.

    Of a single epoch there is no vog: nothing has changed yet.
    `advance` is told of each sample once for each score and epoch that is looked at.
    """
    epochs = kept_epochs(last)
    scores: dict[str, Floats] = {}
    if "vog" in wanted and last > 0:
        spreads = gradient_spreads(reader, kept, epochs, advance)
        scores |= {name: within_class(values, reader.labels) for name, values in spreads.items()}
    if "grand" in wanted:
        norms = [gradient_norms(reader, kept.load(epoch, reader.device), advance) for epoch in epochs.early]
        scores["grand"] = np.mean(norms, axis=0)
    return scores


def passes(last: int, wanted: tuple[str, ...]) -> int:
    """How often `gradient_scores` passes over the samples."""
    epochs = kept_epochs(last)
    return ("vog" in wanted and last > 0) * len(epochs.every) + ("grand" in wanted) * len(epochs.early)


def gradient_spreads(reader: Reader, kept: KeptWeights, epochs: Epochs, advance: Advance) -> dict[str, Floats]:
    """How much the gradient of each sample's input changes over epochs: the mean over the input of its deviation.

    The gradient is that of the target's logit. All epochs of some samples at a time: as many as memory is given to.
    """
    groups = {
        name: [epochs.every.index(epoch) for epoch in chosen]
        for name, chosen in {"vog": epochs.every, "vog_early": epochs.early, "vog_late": epochs.late}.items()
    }
    spreads = {name: np.zeros(len(reader.labels)) for name in groups}
    for places in _pieces(reader.sizes * len(epochs.every), MOST_INPUTS):
        inputs, targets = reader.read(places), _targets(reader, places)
        found = []
        for epoch in epochs.every:
            weights = reader.fitted(kept.load(epoch, reader.device))
            found.append(input_gradients(reader, weights, inputs, targets))
            advance(len(places))
        gradients = torch.stack(found)
        for name, chosen in groups.items():
            deviation = gradients[chosen].std(dim=0, correction=0)
            spreads[name][places] = reader.mean(deviation, inputs).double().cpu().numpy()
    return spreads


def input_gradients(reader: Reader, weights: Weights, inputs: Tensors, targets: Tensor) -> Tensor:
    """The gradient of each target's logit with regard to the sample's own input.

    Of the sum of all logits: in eval mode no sample's logit depends on another's input.
    """
    found = []
    for start in range(0, len(targets), reader.at_once()):
        cut = slice(start, start + reader.at_once())
        logits, leaf = reader.looked_at(weights, {name: values[cut] for name, values in inputs.items()})
        of_targets = logits.gather(1, targets[cut, None]).sum()
        found.append(torch.autograd.grad(of_targets, leaf)[0])
    return torch.cat(found)


def gradient_norms(reader: Reader, weights: Weights, advance: Advance = lambda _: None) -> Floats:
    """The L2 norm of the gradient of each sample's own loss with regard to all trained weights."""
    trained = [name for name, each in reader.model.named_parameters() if each.requires_grad]
    size = sum(weights[name].numel() for name in trained)
    most = MOST_SAMPLES if vectorises(reader, weights, trained) else 1
    norms = np.zeros(len(reader.labels))
    for places in _pieces(np.full(len(reader.labels), size), most):
        inputs, targets = reader.read(places), _targets(reader, places)
        norms[places] = loss_gradient_norms(reader, weights, trained, inputs, targets).double().cpu().numpy()
        advance(len(places))
    return norms


def loss_gradient_norms(
    reader: Reader, weights: Weights, trained: list[str], inputs: Tensors, targets: Tensor
) -> Tensor:
    """The same for some samples at once; a lone one goes without vmap, which not every model takes."""
    learnt = {name: weights[name] for name in trained}

    def loss(learnt: Weights, one: Tensors, target: Tensor) -> Tensor:
        alone = {name: values.unsqueeze(0) for name, values in one.items()}
        return functional.cross_entropy(reader.logits(weights | learnt, alone).float(), target.unsqueeze(0))

    def norm(one: Tensors, target: Tensor) -> Tensor:
        gradients: Weights = grad(loss)(learnt, one, target)
        return torch.stack([each.square().sum() for each in gradients.values()]).sum().sqrt()

    if len(targets) == 1:
        return norm({name: values[0] for name, values in inputs.items()}, targets[0]).unsqueeze(0)
    # The other kernels of attention know no vmap: torch would warn, and take one sample after the other.
    with sdpa_kernel(SDPBackend.MATH):
        norms: Tensor = vmap(norm)(inputs, targets)
    return norms


def vectorises(reader: Reader, weights: Weights, trained: list[str]) -> bool:
    """Whether several samples at once come to what each comes to alone: tried on the first two."""
    if len(reader.labels) < 2:
        return False
    each = [np.array([0]), np.array([1])]
    alone = [loss_gradient_norms(reader, weights, trained, reader.read(one), _targets(reader, one)) for one in each]
    both = np.concatenate(each)
    try:
        found = loss_gradient_norms(reader, weights, trained, reader.read(both), _targets(reader, both))
    except (RuntimeError, ValueError, NotImplementedError):
        return False
    return bool(torch.allclose(found, torch.cat(alone), rtol=1e-4, atol=1e-7))


def within_class(values: Floats, labels: Places) -> Floats:
    """How many standard deviations each value lies above the mean of its class; 0 where a class has no spread."""
    found = np.zeros(len(values))
    order = np.argsort(labels, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(labels[order])) + 1):
        own = values[members]
        # Not by the deviation: that of equal numbers may come to a trace above 0.
        if len(own) and own.min() != own.max():
            found[members] = (own - own.mean()) / own.std()
    return found


def check_gradients(reader: Reader, wanted: tuple[str, ...], model: str) -> None:
    """Refuse, before anything is trained, a model that the wanted scores cannot be taken of."""
    first = np.array([0])
    inputs, targets = reader.read(first), _targets(reader, first)
    weights = {name: value.detach() for name, value in weights_of(reader.model).items()}
    trained = [name for name, each in reader.model.named_parameters() if each.requires_grad]
    tries: dict[str, tuple[str, Callable[[], Tensor]]] = {
        "vog": ("its input", lambda: input_gradients(reader, weights, inputs, targets)),
        "grand": ("its weights", lambda: loss_gradient_norms(reader, weights, trained, inputs, targets)),
    }
    for score in wanted:
        what, attempt = tries[score]
        try:
            attempt()
        except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
            raise SettingsError(
                f"gradients={score} needs a model whose logits can be differentiated by {what}, and {model} is none "
                f"({_reason(error)}): leave {score} out of -P gradients, or choose another -P model."
            ) from error


def _reason(error: Exception) -> str:
    """What torch says, in some words of one line."""
    return str(error).strip().partition("\n")[0].rstrip(".")[:120] or type(error).__name__


def _targets(reader: Reader, places: Places) -> Tensor:
    return torch.from_numpy(reader.labels[places]).to(reader.device)


def _pieces(sizes: Places, most: int) -> Iterator[Places]:
    """All places in pieces of `most` at most, whose gradients fit the memory that is given to them."""
    start = 0
    while start < len(sizes):
        # Padded to the longest of them, samples are all of its size.
        widest = np.maximum.accumulate(sizes[start : start + most])
        fitting = int(np.count_nonzero(widest * np.arange(1, len(widest) + 1) <= NUMBERS_AT_ONCE))
        yield np.arange(start, start + max(1, fitting))
        start += max(1, fitting)
