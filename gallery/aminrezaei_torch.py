"""efficient_dot_product_attention of memory-efficient-attention, in torch, under checkpoint."""

from functools import partial

import torch
from _refusals import only_default_scale
from _upstream import Upstream

FRAMEWORK = "torch"
LAYOUT = "BSHD"
UPSTREAM = {
    "repository": "AminRezaei0x443/memory-efficient-attention",
    "commit": "882c5e70d6b06b3215355b35435211c5b8caa75d",
    "files": {"memory_efficient_attention/attention_torch.py": "4c9329de7ddb1fa38fe7"},
}
LIMITS = {"groups": [1]}  # num_heads is one number in its documentation

upstream = Upstream(**UPSTREAM)
supports = partial(only_default_scale, upstream)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q, k and v [B, M or N, H, D] -> [B, M, H, D]; the causal mask is an array, as documented."""
    queries, keys = q.shape[1], k.shape[1]
    visible = torch.ones(queries, keys, dtype=torch.bool, device=q.device).tril(keys - queries)
    mask = visible.expand(q.shape[0], q.shape[2], queries, keys) if causal else None
    return upstream.module.efficient_dot_product_attention(q, k, v, mask=mask)
