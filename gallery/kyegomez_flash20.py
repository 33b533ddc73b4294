"""FlashAttentionFunction of FlashAttention20: tiles in plain torch, own backward."""

from functools import partial

import torch
from _refusals import only_default_scale
from _upstream import Upstream

FRAMEWORK = "torch"
UPSTREAM = {
    "repository": "kyegomez/FlashAttention20",
    "commit": "9ec1d9340f023d9d51037e8ddcbdd2d4d207a001",
    "files": {"attention.py": "d13f8d3cb8a5e8394d5e"},
}
LIMITS = {"groups": [1]}  # one heads argument

upstream = Upstream(**UPSTREAM)
supports = partial(only_default_scale, upstream)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q, k and v [B, H, M or N, D] -> [B, H, M, D], with its default buckets."""
    return upstream.module.FlashAttentionFunction.apply(q, k, v, None, causal, 512, 1024)
