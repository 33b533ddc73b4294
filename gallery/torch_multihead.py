"""torch.nn.MultiheadAttention with its default arguments, which return the weights too.

Its projections are identities, so that only its attention remains.
"""

import torch
from _refusals import no_scale

FRAMEWORK = "torch"
UPSTREAM = {"package": "torch", "file": "torch/nn/modules/activation.py"}
LIMITS = {"groups": [1]}  # num_heads is one number

supports = no_scale


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q, k and v [B, H, M or N, D] -> [B, H, M, D]; the causal mask is an array, as documented."""
    (batch, heads, queries, dim), keys = q.shape, k.shape[2]
    width = heads * dim
    with torch.device("meta"):
        layer = torch.nn.MultiheadAttention(
            width, heads, bias=False, batch_first=True, dtype=q.dtype
        )
    identity = torch.eye(width, dtype=q.dtype, device=q.device)
    layer.in_proj_weight = torch.nn.Parameter(identity.repeat(3, 1), requires_grad=False)
    layer.out_proj.weight = torch.nn.Parameter(identity, requires_grad=False)
    hidden = None
    if causal:
        visible = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
        hidden = ~visible.tril(keys - queries)
    flat = [x.transpose(1, 2).flatten(2) for x in (q, k, v)]  # [B, M or N, H D]
    out, _ = layer(*flat, attn_mask=hidden)
    return out.view(batch, queries, heads, dim).transpose(1, 2)
