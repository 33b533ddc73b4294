"""memory_efficient_attention of memory-efficient-attention-pytorch: chunks under checkpoint."""

from functools import partial

import torch
from _refusals import only_default_scale
from _upstream import Upstream

FRAMEWORK = "torch"
UPSTREAM = {
    "repository": "lucidrains/memory-efficient-attention-pytorch",
    "commit": "d54f391370ecbf843a871f0e260425d076995550",
    "files": {
        "memory_efficient_attention_pytorch/memory_efficient_attention.py": "28322a3d24aafc62acaa"
    },
}
LIMITS = {"groups": [1]}  # its products have one axis of heads

upstream = Upstream(**UPSTREAM)
supports = partial(only_default_scale, upstream)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q, k and v [B, H, M or N, D] -> [B, H, M, D], with its default buckets."""
    return upstream.module.memory_efficient_attention(q, k, v, causal=causal)
