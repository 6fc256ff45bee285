"""What a module said while a training step ran."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from actionflow.errors import RecordingError

ITSELF = ""  # the name that PyTorch gives to a module inside itself


class ForwardWatch:
    """Looks at the outputs of a module while a step runs, and finds the logits among them.

        watch = ForwardWatch(module)
        watch.start()
        loss = module.training_step(batch, 0)
        logits = watch.logits(rows=len(targets))

    Logits are what the module's own `forward` gave. When the step never called it, they are what one of the module's
    direct parts gave (`self.model(x)`); when several could be meant, nothing is guessed.
    """

    def __init__(self, module: nn.Module, part: str | None = None) -> None:
        parts = dict(module.named_modules())
        if part is not None and part not in parts:
            raise RecordingError(
                f'the module has no part "{part}" to take logits from: it has '
                f"{', '.join(name for name, _ in module.named_children())}."
            )
        names = [part] if part is not None else [ITSELF, *(name for name, _ in module.named_children())]
        self._said: list[tuple[str, Tensor]] = []
        self._looking = False
        self._hooks: list[RemovableHandle] = [parts[name].register_forward_hook(self._hook(name)) for name in names]

    def start(self) -> None:
        """From here on outputs count."""
        self._said, self._looking = [], True

    def logits(self, rows: int) -> Tensor:
        """The logits of the `rows` samples of this step; looking ends."""
        said, self._said, self._looking = self._said, [], False
        fitting = [(name, each) for name, each in said if len(each) == rows]
        own = [(name, each) for name, each in fitting if name == ITSELF]
        # A loss for each sample is a row as well: a matrix beside it is what it came from.
        matrices = [(name, each) for name, each in own or fitting if each.ndim == 2]
        candidates = _different(matrices or own or fitting)
        if len(candidates) != 1:
            raise RecordingError(_not_one(candidates, rows))
        return candidates[0][1]

    def close(self) -> None:
        """Leave the module as it was."""
        for hook in self._hooks:
            hook.remove()

    def _hook(self, name: str) -> Any:
        def look(module: nn.Module, inputs: Any, output: Any) -> None:
            if self._looking and (found := _logits_in(output)) is not None:
                self._said.append((name, found))

        return look


def _logits_in(output: Any) -> Tensor | None:
    """The part of an output that may be logits: a row or a matrix of numbers, the first of a tuple, or by name."""
    if isinstance(output, Mapping):
        output = output.get("logits")
    elif not isinstance(output, Tensor) and hasattr(output, "logits"):
        output = output.logits
    elif isinstance(output, (tuple, list)) and output:
        output = output[0]
    is_fit = isinstance(output, Tensor) and output.is_floating_point() and output.ndim in (1, 2)
    return output if is_fit else None


def _different(said: list[tuple[str, Tensor]]) -> list[tuple[str, Tensor]]:
    """The same tensor, handed on from part to part, counts once."""
    return list({id(each): (name, each) for name, each in said}.values())


def _not_one(candidates: list[tuple[str, Tensor]], rows: int) -> str:
    if not candidates:
        return (
            f"no logits for the {rows} samples of a step were seen: name the part of the module that gives them, "
            'ActionCallback(logits="model.head"), or pass signals= for a task without classes.'
        )
    names = [name or "forward" for name, _ in candidates]
    return (
        f"{len(names)} outputs of a step could be its logits ({', '.join(names)}): name the part of the module that "
        'gives them, ActionCallback(logits="model.head"), or pass a function of (batch, outputs).'
    )
