"""Right answers of a model, in float32, and their error budgets.

A budget is what rounding the weights to bfloat16 alone does to the same model on the same tokens,
times ROUNDINGS.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from assay.attention.budget import Allowance
from assay.subjects.contract import Expected
from assay.subjects.outcome import WrongAnswer

LOSS = "float32 loss; budget: 4 times the root mean square by which rounded weights move tokens"
SCORES = "float32 scores; budget: 4 times what rounded weights move"
# Between rounded weights bfloat16 rounds activations too, which about doubles the distance; the
# rest is for chance.
ROUNDINGS = 4.0
FLOAT32 = 1e-4  # float32 arithmetic in another order, relative; wrong results are near 1
# Another kernel, as in a CUDA graph, rounds by 2^-9, which has come to 2^-7 after twelve layers.
OTHER_KERNELS = 2**-6
_SPOTS = 16


@torch.no_grad()
def of_loss(model: Any, tokens: torch.Tensor) -> Expected:
    """Expect the mean loss of tokens, [batch, count]."""
    exact = _token_losses(model(tokens[:, :-1])[0], tokens)
    moved = _token_losses(_rounded(model, tokens[:, :-1]), tokens) - exact
    budget = ROUNDINGS * float(moved.square().mean().sqrt())
    allowed = {"out": Allowance(largest=np.array([budget]), mean=budget)}
    result = SimpleNamespace(out=np.array([float(exact.mean())]))
    return Expected(result=result, allowed=allowed, source=LOSS)


@torch.no_grad()
def of_scores(model: Any, tokens: torch.Tensor, cached: torch.Tensor) -> Expected:
    """Expect the scores after the last token, [batch, V]. `cached` are those of the same model
    through its cache; raises WrongAnswer where they are others."""
    right = model(tokens)[0][:, -1].double()
    distance = float((cached.double() - right).norm() / right.norm())
    if not distance <= FLOAT32:
        raise WrongAnswer(
            f"in float32 the cached scores are {distance:.2g} off those of the whole pass"
        )
    moved = (_rounded(model, tokens)[:, -1].double() - right).abs()
    largest = np.full(right.shape, ROUNDINGS * float(moved.max()))
    allowed = {"out": Allowance(largest=largest, mean=ROUNDINGS * float(moved.mean()))}
    return Expected(result=SimpleNamespace(out=right.cpu().numpy()), allowed=allowed, source=SCORES)


def largest_of(out: np.ndarray) -> Expected:
    """Expect the largest values of an untimed answer, within what other kernels may round."""
    index = np.unravel_index(np.argsort(np.abs(out), axis=None)[-_SPOTS:], out.shape)
    right = out[index]
    allowed = np.full(right.shape, 6 * OTHER_KERNELS * np.sqrt(np.square(out).mean()))
    return Expected(
        result=SimpleNamespace(out=right),
        allowed={"out": Allowance(largest=allowed, mean=float(allowed[0]))},
        index={"out": index},
        source="an untimed call of the same",
    )


def _rounded(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    """Logits in float32 arithmetic of weights that were rounded to bfloat16, [batch, count, V]."""
    weights = {name: p.bfloat16().float() for name, p in model.named_parameters()}
    return torch.func.functional_call(model, weights, (tokens,))[0]


def _token_losses(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Loss of each target, [batch * (count - 1)]."""
    return torch.nn.functional.cross_entropy(
        logits.flatten(0, 1).float(), tokens[:, 1:].flatten(), reduction="none"
    )
