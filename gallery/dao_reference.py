"""attention_ref of flash-attention, with which it tests its kernels: float32 inside."""

from functools import partial

import torch
from _refusals import only_default_scale
from _upstream import Upstream

FRAMEWORK = "torch"
LAYOUT = "BSHD"
UPSTREAM = {
    "repository": "Dao-AILab/flash-attention",
    "commit": "0251105a2fb19d2957484b7f023cd8c115286ced",
    "files": {"flash_attn/utils/testing.py": "81be51f1de8427988984"},
}

upstream = Upstream(**UPSTREAM)
supports = partial(only_default_scale, upstream)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q, k and v [B, M or N, H, D] -> [B, M, H, D]."""
    out, _ = upstream.module.attention_ref(q, k, v, causal=causal)
    return out
