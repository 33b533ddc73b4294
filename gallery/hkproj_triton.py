"""TritonAttention of triton-flash-attention, kernels for the forward and the backward."""

from functools import partial

import torch
from _interpreter import only_interpretable
from _upstream import Upstream

FRAMEWORK = "torch"
REQUIRES = ("triton",)
UPSTREAM = {
    "repository": "hkproj/triton-flash-attention",
    "commit": "296ee44c8a238cd2192d13e22e9082251f1c1289",
    "files": {"triton/flash_attention.py": "912b083e42c9811a2415"},
}
LIMITS = {"queries": "equal", "groups": [1], "contiguous": True}  # one SEQ_LEN, one stride

upstream = Upstream(**UPSTREAM)
supports = partial(only_interpretable, upstream, most_scores=600_000)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q, k and v [B, H, M, D] -> [B, H, M, D]."""
    return upstream.module.TritonAttention.apply(q, k, v, causal, scale)
