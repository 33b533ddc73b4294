"""torch's scaled_dot_product_attention in float32, with the mask said rather than implied."""

import torch
from torch.nn.functional import scaled_dot_product_attention

FRAMEWORK = "torch"


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    wide = [q.float(), *(x.float().repeat_interleave(group, dim=1) for x in (k, v))]
    if not causal or queries == keys:
        return scaled_dot_product_attention(*wide, is_causal=causal, scale=scale).to(q.dtype)
    # is_causal is aligned top-left in torch, and rows that see nothing are left to the kernel.
    blind = max(queries - keys, 0)
    wide[0] = wide[0][:, :, blind:]
    seen = torch.ones(queries - blind, keys, dtype=torch.bool, device=q.device)
    seen = seen.tril(keys - queries + blind)
    out = scaled_dot_product_attention(*wide, attn_mask=seen, scale=scale)
    return torch.nn.functional.pad(out, (0, 0, blind, 0)).to(q.dtype)
