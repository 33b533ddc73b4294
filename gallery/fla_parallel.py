"""parallel_attn of flash-linear-attention, in Triton."""

from functools import partial

import torch
from _interpreter import only_interpretable
from _upstream import Upstream

FRAMEWORK = "torch"
REQUIRES = ("triton",)
LAYOUT = "BSHD"
UPSTREAM = {
    "repository": "fla-org/flash-linear-attention",
    "commit": "bc3b101dcb713ddc5bd8924b66754eb68b5ccf89",
    "files": {"fla/ops/attn/parallel.py": "7409f5ce86b5ebc3083f"},
}
LIMITS = {"queries": "equal", "masks": "causal"}  # one T; full causal attention

upstream = Upstream(**UPSTREAM)
supports = partial(only_interpretable, upstream, most_scores=10_000)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q [B, M, H, D], k and v [B, M, G, D] -> [B, M, H, D]."""
    return upstream.module.parallel_attn(q, k, v, scale=scale)
