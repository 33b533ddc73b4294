"""Generation of tokens: greedy, or drawn with a temperature, of the k likeliest, or of the nucleus
(Holtzman et al. 2020).

The prompt goes through the model once and fills its cache; after that every step computes one
token, on a GPU by the replay of a graph where there are many and the model can. A model that cannot
decode through a cache reads everything again at each step.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from assay.errors import BadInput

_MANY_STEPS = 32  # from which on capturing one pays


@torch.no_grad()
def generate(
    model: torch.nn.Module,
    idx: torch.Tensor,
    *,
    tokens: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
    cached: bool = True,
    cache: Any = None,
) -> torch.Tensor:
    """The prompt `idx` (int64 [B, T]) and `tokens` more: int64 [B, T + tokens].

    Scores are divided by `temperature`, 0 taking the likeliest; then all but the `top_k` likeliest
    are left out, then all but the fewest that together have a probability of `top_p`. The model is
    put into evaluation mode and back. `cache` is an empty one of the model, to keep the tokens in
    another way than its own.
    """
    _refuse(idx, tokens, temperature, top_k, top_p, _block_size(model))
    with _evaluating(model):
        next_logits = _whole_pass(model)
        if cached and decodes(model):
            next_logits = _CachedLogits(model, cache, replayed=tokens >= _MANY_STEPS)
        for _ in range(tokens):
            next_B1 = draw(
                next_logits(idx),
                temperature=temperature,
                top_k=top_k,
                top_p=top_p,
                generator=generator,
            )
            idx = torch.cat((idx, next_B1), dim=1)
    return idx


def draw(
    logits_BV: torch.Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> torch.Tensor:
    """One token for each row of logits [B, V]: int64 [B, 1]."""
    if temperature == 0:
        return logits_BV.argmax(dim=-1, keepdim=True)
    # Half precision has too few steps to add up 50,000 probabilities.
    wide_BV = logits_BV.to(torch.promote_types(logits_BV.dtype, torch.float32))
    ranked_BV, order_BV = wide_BV.sort(dim=-1, descending=True, stable=True)
    ranked_BV = ranked_BV[:, :top_k]
    chances_BV = ((ranked_BV - ranked_BV[:, :1]) / temperature).softmax(dim=-1)
    if top_p is not None:
        before_BV = chances_BV.cumsum(dim=-1) - chances_BV  # of the likeliest: exactly 0
        chances_BV = chances_BV.masked_fill(before_BV >= top_p, 0.0)
    rank_B1 = torch.multinomial(chances_BV, 1, generator=generator)
    return order_BV.gather(1, rank_B1)


def decodes(model: torch.nn.Module) -> bool:
    """True where a model can go on from a cache of its own."""
    parameters = inspect.signature(model.forward).parameters
    return "cache" in parameters and callable(getattr(model, "new_cache", None))


class _CachedLogits:
    """Logits [B, V] of the token after `idx`; each call reads the tokens that are new to it."""

    def __init__(self, model: Any, cache: Any, *, replayed: bool) -> None:
        self.model = model
        self.cache = cache
        self.read = 0
        self.replayed = replayed and hasattr(model, "graphed_steps")
        self.steps: Any = None

    def __call__(self, idx: torch.Tensor) -> torch.Tensor:
        if self.cache is None:
            self.cache = self.model.new_cache(idx.shape[0])
        if self.read and self.replayed and self.steps is None:
            self.steps = self.model.graphed_steps(self.cache)
            self.replayed = self.steps is not None
        if self.steps is not None:
            self.read = idx.shape[1]
            return self.steps(idx[:, -1:])[:, -1]
        logits, _, self.cache = self.model(idx[:, self.read :], cache=self.cache)
        self.read = idx.shape[1]
        return logits[:, -1]


def _whole_pass(model: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    """Logits [B, V] of the token after `idx`, all of which is read at each call."""
    return lambda idx: model(idx)[0][:, -1]


@contextmanager
def _evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Put the model into evaluation mode, and afterwards each module into the mode it was in."""
    before = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in before.items():
            module.training = training


def _block_size(model: Any) -> int | None:
    """Number of tokens that a model has positions for; None where it does not say."""
    config = getattr(model, "config", None) or getattr(model, "cfg", None)
    return getattr(config, "block_size", None)


def _refuse(
    idx: torch.Tensor,
    tokens: int,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    block_size: int | None,
) -> None:
    """Refuse what cannot be generated."""
    if idx.ndim != 2 or idx.dtype != torch.int64:
        raise BadInput(
            f"the prompt is {idx.dtype} of shape {tuple(idx.shape)}; "
            "wanted int64 [batch, tokens]; give token numbers, one row for each sequence"
        )
    if 0 in idx.shape:
        raise BadInput(
            f"the prompt is empty: its shape is {tuple(idx.shape)}; a model goes on from at least "
            "one token; give it one, such as the end-of-text token"
        )
    if tokens < 0:
        raise BadInput(f"tokens={tokens}; wanted 0 or more")
    if block_size is not None and idx.shape[1] + tokens > block_size:
        raise BadInput(
            f"{idx.shape[1]} tokens of prompt and {tokens} more are beyond the {block_size} that "
            f"the model has positions for; ask for at most {max(block_size - idx.shape[1], 0)}, "
            "or shorten the prompt"
        )
    if not temperature >= 0 or temperature == float("inf"):
        raise BadInput(f"temperature={temperature}; wanted 0 (the likeliest token) or more")
    if top_k is not None and top_k < 1:
        raise BadInput(f"top_k={top_k}; wanted 1 or more, or None to keep all tokens")
    if top_p is not None and not 0 < top_p <= 1:
        raise BadInput(f"top_p={top_p}; wanted above 0 and up to 1, or None to keep all tokens")
