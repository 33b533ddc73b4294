"""Keys as they are and values in FP8, read in plain torch: to begin from."""

import torch

LAYOUT = "k16v8"
ACCEPTS = ("lengths",)


def decode(q, streams, *, scale, lengths=None):  # q [batch, heads, new tokens, head_dim]
    new, group = q.shape[2], q.shape[1] // streams["k"].shape[1]
    k, v = streams["k"].float(), streams["v"].float() * streams["v_scale"].float()
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))  # [batch, heads, keys, head_dim]
    keys, token = (torch.arange(n, device=q.device) for n in (k.shape[2], new))
    if lengths is None:
        lengths = torch.full((len(q),), len(keys), device=q.device)
    seen = lengths[:, None] - new + token + 1  # [batch, new tokens]
    visible = (keys < seen[..., None])[:, None]  # [batch, 1, new tokens, keys]
    scores = (scale * q.float() @ k.mT).masked_fill(~visible, -torch.inf)
    weights = scores.softmax(-1).masked_fill(~visible, 0)  # a query without a key gives zeros
    behind = (keys >= lengths[:, None])[:, None, :, None]  # of which 0 times NaN would be NaN
    return (weights @ v.masked_fill(behind, 0)).to(q.dtype)
