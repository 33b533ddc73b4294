"""torch's attention over a cache of whole keys and values: the peers of the split kernel.

A mask is made only where sequences differ in length or several new tokens come; keys of one kv head
serve all its query heads without being copied.
"""

import torch
from torch.nn import functional as F

from assay.errors import BadInput


def attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float,
    lengths: torch.Tensor | None,
    pages: torch.Tensor | None,
) -> torch.Tensor:
    """q [B, H, T, D], k and v [B, G, S, D] -> [B, H, T, D]; queries without a key give zeros."""
    if pages is not None:
        raise BadInput("torch's attention reads no pages; give keys and values in one piece")
    new, total = q.shape[2], k.shape[2]  # T, S
    grouped = k.shape[1] != q.shape[1]
    if lengths is None and new == 1:
        return F.scaled_dot_product_attention(q, k, v, scale=scale, enable_gqa=grouped)
    if lengths is None:
        lengths = torch.full((q.shape[0],), total, device=q.device)
    keys = torch.arange(total, device=q.device)
    token = torch.arange(new, device=q.device)
    seen = lengths[:, None, None] - new + token[:, None] + 1  # [B, T, 1]
    visible = (keys < seen)[:, None]  # [B, 1, T, S]
    # Behind its length a cache may hold anything, and 0 x NaN is NaN.
    written = (keys < lengths[:, None])[:, None, :, None]  # [B, 1, S, 1]
    k, v = k.masked_fill(~written, 0), v.masked_fill(~written, 0)
    out = F.scaled_dot_product_attention(
        q, k, v, attn_mask=visible, scale=scale, enable_gqa=grouped
    )
    return out.masked_fill(~visible.any(-1, keepdim=True), 0)
