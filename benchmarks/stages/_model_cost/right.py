"""Whether a model may be timed: its low precision and its cache against a float32 pass.

A budget is what rounding the weights alone does to the same model on the same tokens, in float32.
"""

from collections.abc import Callable
from typing import Any

import torch

from _model_cost import passes

FLOAT32 = 1e-4  # float32 arithmetic in another order, relative; wrong results are near 1
# A graph may take other kernels, whose roundings of 2^-9 have come to 2^-7 after twelve layers.
GRAPH = 2**-6
# Against rounded weights in float32 arithmetic, bfloat16 rounds what is between them too, which
# about doubles the distance; the rest is for chance.
ROUNDINGS = 4.0
LOSS = "distance of the bfloat16 loss from float32's, over 4 times what rounded weights move tokens"
DECODE = "distance of cached bfloat16 scores from float32's, over 4 times that of rounded weights"


class Wrong(Exception):
    """What a model gives is not what float32 gives."""


@torch.no_grad()
def check_loss(model: Any, idx: torch.Tensor, loss: Callable[[], torch.Tensor]) -> float:
    """How far the autocast loss is off float32's, as a share of its budget; Wrong above 1.

    The budget is from how much the losses of single tokens move, root mean square.
    """
    exact = _token_losses(model(idx[:, :-1])[0], idx)
    moved = _token_losses(_rounded(model, idx[:, :-1]), idx) - exact
    budget = ROUNDINGS * float(moved.square().mean().sqrt())
    off = abs(float(loss()) - float(exact.mean()))
    if not off <= budget:
        raise Wrong(
            f"the bfloat16 loss is {off:.2g} off float32's {float(exact.mean()):.4f}; "
            f"rounding explains {budget:.2g}"
        )
    return off / budget


@torch.no_grad()
def check_decode(model: Any, low: Any, idx: torch.Tensor) -> float:
    """How far the last token through the cache of `low`, the same model in bfloat16, is off
    float32's whole pass, as a share of its budget; Wrong above 1, and where float32's own cache
    gives something else than its whole pass."""
    whole = model(idx)[0][:, -1]
    exact = error(_cached(model, idx), whole)
    if not exact <= FLOAT32:
        raise Wrong(f"in float32 the cached scores are {exact:.2g} off those of the whole pass")
    budget = ROUNDINGS * error(_rounded(model, idx)[:, -1], whole)
    off = error(_cached(low, idx), whole)
    if not off <= budget:
        raise Wrong(
            f"in bfloat16 the cached scores are {off:.2g} off; rounding explains {budget:.2g}"
        )
    return off / budget


def _rounded(model: Any, idx: torch.Tensor) -> torch.Tensor:
    """Logits in float32 arithmetic of weights that were rounded to bfloat16."""
    weights = {name: p.bfloat16().float() for name, p in model.named_parameters()}
    return torch.func.functional_call(model, weights, (idx,))[0]


def check_gradients(model: Any) -> None:
    """Every weight has a finite gradient."""
    for name, parameter in model.named_parameters():
        if parameter.grad is None or not parameter.grad.isfinite().all():
            raise Wrong(f"{name} has no finite gradient")


def error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """||found - wanted|| / ||wanted||."""
    wanted = wanted.double()
    return float((found.double() - wanted).norm() / wanted.norm())


def _cached(model: Any, idx: torch.Tensor) -> torch.Tensor:
    return passes.decode(model, passes.filled(model, idx[:, :-1]), idx[:, -1:])()


def _token_losses(logits: torch.Tensor, idx: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(
        logits.flatten(0, 1).float(), idx[:, 1:].flatten(), reduction="none"
    )
