"""minGPT's CausalSelfAttention, which holds the whole score matrix.

Its projections are left out, so that only its attention remains.
"""

from functools import partial

import torch
from _gpt import without_projections
from _refusals import only_default_scale
from _upstream import Upstream

FRAMEWORK = "torch"
UPSTREAM = {
    "repository": "karpathy/minGPT",
    "commit": "37baab71b9abea1b76ab957409a1cc2fbfba8a26",
    "files": {"mingpt/model.py": "83ee22dc07707fd9cb62"},
}
LIMITS = {"queries": "equal", "masks": "causal", "groups": [1]}  # self-attention of a GPT

upstream = Upstream(**UPSTREAM)
supports = partial(only_default_scale, upstream)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q, k and v [B, H, M, D] -> [B, H, M, D]."""
    _, heads, length, _ = q.shape
    config = upstream.module.GPT.get_default_config()
    config.n_head = config.n_embd = heads
    config.block_size, config.attn_pdrop, config.resid_pdrop = length, 0.0, 0.0
    layer = upstream.module.CausalSelfAttention(config).to(q.device)
    return without_projections(layer, q, k, v)
