"""Attention that understands every optional extra of the contract."""

import torch

FRAMEWORK = "torch"
ACCEPTS = ("mask", "lengths", "cu_seqlens", "window", "lse")


def attention(
    q, k, v, *, causal: bool, scale: float,
    mask=None, lengths=None, cu_seqlens=None, window=None, lse=False,
):  # fmt: skip
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    column = torch.arange(keys, device=q.device)
    if cu_seqlens is None:
        position = torch.arange(queries, device=q.device)[:, None] + keys - queries
        seen = torch.ones(1, 1, queries, keys, dtype=torch.bool, device=q.device)
    else:
        position, column, seen = _packed(*cu_seqlens, queries, keys)
    distance = position - column
    if causal:
        seen = seen & (distance >= 0)
    if window is not None:
        seen = seen & (distance.abs() < window)
    if lengths is not None:
        seen = seen & (column < lengths.to(q.device)[:, None, None, None])
    if mask is not None:
        seen = seen & mask
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
    out = weights.to(v.dtype) @ v
    if not lse:
        return out
    return out, scores.detach().masked_fill(~seen, float("-inf")).logsumexp(dim=-1)


def _packed(cu_q, cu_k, queries, keys):
    """Positions within their own sequence, and which queries and keys share one."""
    row, column = (torch.arange(n, device=cu_q.device, dtype=torch.int32) for n in (queries, keys))
    row_sequence = torch.searchsorted(cu_q[1:].contiguous(), row, right=True)
    column_sequence = torch.searchsorted(cu_k[1:].contiguous(), column, right=True)
    column = column - cu_k[column_sequence]
    row = row - cu_q[row_sequence] + (cu_k - cu_q).diff()[row_sequence]
    return row[:, None], column, (row_sequence[:, None] == column_sequence)[None, None]
