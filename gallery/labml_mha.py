"""MultiHeadAttention of annotated_deep_learning_paper_implementations, in plain torch.

Its projections are replaced by identities, so that only its attention remains."""

from functools import partial

import torch
from _refusals import only_default_scale
from _upstream import Upstream

FRAMEWORK = "torch"
UPSTREAM = {
    "repository": "labmlai/annotated_deep_learning_paper_implementations",
    "commit": "e6b3c8a6a2cdae4071bcde1abeaaf9a2bc37bd53",
    "files": {"labml_nn/transformers/mha.py": "ff93530e0df438dd4dbe"},
}
LIMITS = {"groups": [1]}  # one heads argument

upstream = Upstream(**UPSTREAM)
supports = partial(only_default_scale, upstream)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q, k and v [B, H, M or N, D] -> [B, H, M, D]; its own layout is [M, B, H D]."""
    (batch, heads, queries, dim), keys = q.shape, k.shape[2]
    layer = upstream.module.MultiHeadAttention(heads, heads, dropout_prob=0.0)
    layer.scale = dim**-0.5  # what d_model = heads * dim gives
    layer.query = layer.key = layer.value = torch.nn.Unflatten(-1, (heads, dim))
    layer.output = torch.nn.Identity()
    mask = None
    if causal:
        visible = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
        mask = visible.tril(keys - queries)[..., None]  # [M, N, 1]
    query, key, value = (x.permute(2, 0, 1, 3).flatten(2) for x in (q, k, v))  # [M, B, H D]
    out = layer(query=query, key=key, value=value, mask=mask)
    return out.view(queries, batch, heads, dim).permute(1, 2, 0, 3)
