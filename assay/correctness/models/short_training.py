"""A few steps of AdamW with what they showed: losses, norms, and which weights gradients reached.

The batches hold every word at least once and every position, so that no row of an embedding goes
without a gradient for want of use.
"""

import torch
from torch import nn

from assay.correctness.models.custom_functions import functions_in, graph_nodes
from assay.correctness.models.forward import forward

STEPS, MOST_STEPS = 3, 12  # the latter where some weight has no gradient yet
_LEARNING_RATE, _CLIP = 1e-2, 1.0


class ShortTraining:
    """The model after STEPS steps of AdamW, each on a batch of its own."""

    def __init__(self, model: nn.Module, *, vocabulary: int, length: int) -> None:
        self.model = model
        self.losses: list[float] = []
        self.norms: list[float] = []  # of the gradients
        self.moved: dict[str, bool] = {}  # by weight with a gradient: did the first step move it?
        self.reached: dict[str, torch.Tensor | None] = {}  # elements with a gradient; None: none
        self.not_finite: list[str] = []  # weights with such a value or gradient
        self.strays: list[torch.Tensor] = []  # in the graph of each step, but no parameters
        self.functions: set[type] = set()  # torch.autograd.Function of user code in the graph
        self._batch = (vocabulary, length)
        optimizer = torch.optim.AdamW(self._trainable().values(), lr=_LEARNING_RATE, fused=True)
        for number in range(STEPS):
            self._step(optimizer, number)
        for number in range(STEPS, MOST_STEPS):  # an expert may wait for its token
            if all(reached is not None and reached.any() for reached in self.reached.values()):
                break
            self._step(optimizer, number)
        for name, weight in self._trainable().items():
            if not weight.detach().isfinite().all():
                self.not_finite.append(name)

    def _trainable(self) -> dict[str, nn.Parameter]:
        return {name: p for name, p in self.model.named_parameters() if p.requires_grad}

    def _step(self, optimizer: torch.optim.Optimizer, number: int) -> None:
        optimizer.zero_grad(set_to_none=True)
        idx, targets = batch(*self._batch, seed=number)
        loss = forward(self.model, idx, targets).loss
        if number < 2:
            strays = _strays(loss, self.model)
            again = [new for new in strays if any(new is old for old in self.strays)]
            self.strays = again if number else strays
            self.functions |= functions_in(loss)
        loss.backward()
        self.losses.append(float(loss.detach()))
        weights = self._trainable()
        norm = torch.nn.utils.clip_grad_norm_(weights.values(), _CLIP)
        self.norms.append(float(norm))
        self._record_gradients(weights, finite=bool(norm.isfinite()))
        before = {name: p.detach().clone() for name, p in weights.items()} if number == 0 else {}
        optimizer.step()
        for name, old in before.items():
            if self.reached[name] is not None and self.reached[name].any():
                self.moved[name] = not torch.equal(old, weights[name].detach())

    def _record_gradients(self, weights: dict[str, nn.Parameter], *, finite: bool) -> None:
        for name, weight in weights.items():
            reached = self.reached.setdefault(name, None)
            if weight.grad is None:
                continue
            if not finite and not weight.grad.isfinite().all():
                self.not_finite.append(name)
            nonzero = weight.grad != 0
            self.reached[name] = nonzero if reached is None else reached | nonzero


def _strays(loss: torch.Tensor, model: nn.Module) -> list[torch.Tensor]:
    """Leaves of an autograd graph that are no parameters of the model."""
    weights = {id(weight) for weight in model.parameters()}
    leaves = (node.variable for node in graph_nodes(loss) if hasattr(node, "variable"))
    return [leaf for leaf in leaves if id(leaf) not in weights]


def batch(vocabulary: int, length: int, *, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and targets [B, T] in which every word occurs, in an order by `seed`."""
    generator = torch.Generator().manual_seed(seed + 1)
    rows = -(-vocabulary // length)

    def all_words() -> torch.Tensor:
        extra = torch.randint(vocabulary, (rows * length - vocabulary,), generator=generator)
        words = torch.cat([torch.arange(vocabulary), extra])
        return words[torch.randperm(len(words), generator=generator)].reshape(rows, length)

    return all_words(), all_words()
