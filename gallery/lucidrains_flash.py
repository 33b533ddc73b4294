"""FlashAttentionFunction of memory-efficient-attention-pytorch: tiles in torch, own backward."""

from functools import partial

import torch
from _refusals import only_default_scale
from _upstream import Upstream

FRAMEWORK = "torch"
UPSTREAM = {
    "repository": "lucidrains/memory-efficient-attention-pytorch",
    "commit": "d54f391370ecbf843a871f0e260425d076995550",
    "files": {"memory_efficient_attention_pytorch/flash_attention.py": "560e6e2e09187272605e"},
}
LIMITS = {"groups": [1]}  # one heads argument

upstream = Upstream(**UPSTREAM)
supports = partial(only_default_scale, upstream)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q, k and v [B, H, M or N, D] -> [B, H, M, D], with its default buckets."""
    return upstream.module.FlashAttentionFunction.apply(q, k, v, None, causal, 512, 1024)
