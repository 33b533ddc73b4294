"""Attention over packed sequences: a token's sequence is found by bisection."""

import torch

FRAMEWORK = "torch"
PLANTED = "the first token of a sequence is taken for the last of the one before"
CAUGHT_BY = ("options",)
CAUSE = ("boundar", "cu_seqlens", "packed", "sequence")
ACCEPTS = ("cu_seqlens",)


def attention(q, k, v, *, causal: bool, scale: float, cu_seqlens=None):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    if cu_seqlens is None:
        cu_seqlens = (torch.tensor([0, n], device=q.device) for n in (queries, keys))
    cu_q, cu_k = cu_seqlens
    row, row_sequence = _places(cu_q, queries)
    column, column_sequence = _places(cu_k, keys)
    seen = row_sequence[:, None] == column_sequence
    if causal:
        offset = (cu_k - cu_q).diff()[row_sequence]
        seen = seen & (column <= (row + offset)[:, None])
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
    return weights.to(v.dtype) @ v


def _places(cu, length):
    """Each token's position in its sequence, and which sequence that is."""
    token = torch.arange(length, device=cu.device, dtype=cu.dtype)
    sequence = torch.searchsorted(cu[1:].contiguous(), token)
    return token - cu[sequence], sequence
