"""nanoGPT's CausalSelfAttention, as it runs on a current torch (through torch's fused attention).

Its projections are left out, so that only its attention remains.
"""

from functools import partial

import torch
from _gpt import without_projections
from _refusals import only_default_scale
from _upstream import Upstream

FRAMEWORK = "torch"
UPSTREAM = {
    "repository": "karpathy/nanoGPT",
    "commit": "3adf61e154c3fe3fca428ad6bc3818b27a3b8291",
    "files": {"model.py": "c698f8b60129d793494d"},
}
LIMITS = {"queries": "equal", "masks": "causal", "groups": [1]}  # self-attention of a GPT

upstream = Upstream(**UPSTREAM)
supports = partial(only_default_scale, upstream)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q, k and v [B, H, M, D] -> [B, H, M, D]."""
    _, heads, length, _ = q.shape
    config = upstream.module.GPTConfig(
        block_size=length, n_head=heads, n_embd=heads, dropout=0.0, bias=False
    )
    return without_projections(upstream.module.CausalSelfAttention(config), q, k, v)
