"""ring_flash_attn of ring-attention-pytorch, on one machine: tiles in plain torch, own backward."""

from functools import partial

import torch
from _refusals import only_default_scale
from _upstream import Upstream

FRAMEWORK = "torch"
LAYOUT = "BSHD"
UPSTREAM = {
    "repository": "lucidrains/ring-attention-pytorch",
    "commit": "373f75b725c2111bfe6a8d47c72a0b01995150c5",
    "files": {"ring_attention_pytorch/ring_flash_attention.py": "34a02102bedfbf73bee7"},
}

upstream = Upstream(**UPSTREAM)
supports = partial(only_default_scale, upstream)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q, k and v [B, M or N, H, D] -> [B, M, H, D], with its default bucket."""
    return upstream.module.ring_flash_attn(q, k, v, causal=causal)
