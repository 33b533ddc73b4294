"""A few steps of training, and what they showed: losses, norms, which weights were reached.

The batches hold every word at least once and every position, so that no row of an embedding
goes without a gradient for want of use.
"""

import torch
from torch import nn

from assay.correctness.models.model_calls import call

STEPS, MOST_STEPS = 3, 12  # the latter where some weight goes without a gradient
_RATE, _CLIP = 1e-2, 1.0


class Training:
    """The model after STEPS steps of AdamW, each on a batch of its own."""

    def __init__(self, model: nn.Module, *, vocabulary: int, length: int) -> None:
        self.model = model
        self.losses: list[float] = []
        self.norms: list[float] = []
        self.moved: dict[str, bool] = {}  # weights whose gradient was not zero: whether they moved
        self.reached: dict[str, torch.Tensor | None] = {}  # which elements; None: no gradient
        self.unfit: list[str] = []  # weights with a gradient or a value that is not finite
        self.strays: list[torch.Tensor] = []  # ask for a gradient in each step, and are no weights
        self._batch = (vocabulary, length)
        optimizer = torch.optim.AdamW(self._asking().values(), lr=_RATE, fused=True)
        for number in range(STEPS):
            self._step(optimizer, number)
        for number in range(STEPS, MOST_STEPS):  # an expert may wait for its token
            if all(reached is not None and reached.any() for reached in self.reached.values()):
                break
            self._step(optimizer, number)
        self.unfit += [
            name for name, p in self._asking().items() if not p.detach().isfinite().all()
        ]

    def _asking(self) -> dict[str, nn.Parameter]:
        return {name: p for name, p in self.model.named_parameters() if p.requires_grad}

    def _step(self, optimizer: torch.optim.Optimizer, number: int) -> None:
        optimizer.zero_grad(set_to_none=True)
        idx, targets = batch(*self._batch, seed=number)
        loss = call(self.model, idx, targets).loss
        if number < 2:
            there = _strays(loss, self.model)
            known = [one for one in there if any(one is other for other in self.strays)]
            self.strays = known if number else there
        loss.backward()
        self.losses.append(float(loss.detach()))
        asking = self._asking()
        norm = torch.nn.utils.clip_grad_norm_(asking.values(), _CLIP)
        self.norms.append(float(norm))
        self._note(asking, finite=bool(norm.isfinite()))
        before = {name: p.detach().clone() for name, p in asking.items()} if number == 0 else {}
        optimizer.step()
        for name, old in before.items():
            if self.reached[name] is not None and self.reached[name].any():
                self.moved[name] = not torch.equal(old, asking[name].detach())

    def _note(self, asking: dict[str, nn.Parameter], *, finite: bool) -> None:
        for name, weight in asking.items():
            known = self.reached.setdefault(name, None)
            if weight.grad is None:
                continue
            if not finite and not weight.grad.isfinite().all():
                self.unfit.append(name)
            here = weight.grad != 0
            self.reached[name] = here if known is None else known | here


def _strays(loss: torch.Tensor, model: nn.Module) -> list[torch.Tensor]:
    """Tensors at the ends of a graph that are none of a model's weights."""
    weights = {id(weight) for weight in model.parameters()}
    waiting, seen, found = [loss.grad_fn], set(), []
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable") and id(node.variable) not in weights:
            found.append(node.variable)
        waiting += [before for before, _ in node.next_functions]
    return found


def batch(vocabulary: int, length: int, *, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and targets [B, T] in which every word occurs, in an order by `seed`."""
    generator = torch.Generator().manual_seed(seed + 1)
    rows = -(-vocabulary // length)

    def all_words() -> torch.Tensor:
        extra = torch.randint(vocabulary, (rows * length - vocabulary,), generator=generator)
        words = torch.cat([torch.arange(vocabulary), extra])
        return words[torch.randperm(len(words), generator=generator)].reshape(rows, length)

    return all_words(), all_words()
