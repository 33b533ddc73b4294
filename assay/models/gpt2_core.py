"""Causal attention as the GPT-2 family calls it: fused, or with its weights in memory.

B batch, H query heads, G key heads (H, or 1 that all share), T new tokens, S tokens in all, D.
The mask is aligned bottom-right: new token i sees all tokens up to i + S - T.
"""

from typing import NamedTuple

import torch
from torch.nn import functional as F


class Attended(NamedTuple):
    """What a core gives back."""

    out: torch.Tensor  # [B, H, T, D]
    weights: torch.Tensor | None = None  # [B, H, T, S], where they were asked for
    factor: torch.Tensor | None = None  # [B, H, T, 1]: multiplies what becomes of `out`


class PlainCore:
    """Softmax attention. `explicit` computes the weights in memory, else torch's fused kernels."""

    def __init__(self, *, dropout: float, explicit: bool) -> None:
        self.dropout = dropout
        self.explicit = explicit

    def __call__(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        *,
        scale: float,
        bias: torch.Tensor | None = None,
        training: bool = False,
    ) -> Attended:
        """q [B, H, T, D], k and v [B, G, S, D]; `bias` [B, H, T, S] is added to scaled scores."""
        rate = self.dropout if training else 0.0
        if not self.explicit:
            return Attended(fused(q, k, v, scale=scale, bias=bias, dropout=rate))
        weights = softmax(masked_scores(q, k, scale=scale, bias=bias), q.dtype)
        return Attended(F.dropout(weights, rate) @ v, weights)


def fused(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float,
    bias: torch.Tensor | None = None,
    dropout: float = 0.0,
) -> torch.Tensor:
    """torch's kernel. Where all heads share the keys they become rows of one head: no copies."""
    batch, heads, new, _ = q.shape
    shared = k.shape[1] == 1 and heads > 1
    plain = bias is None
    causal = plain and new == k.shape[2] and not shared and new > 1
    mask = None
    if not plain:
        mask = hide_future(bias).to(q.dtype)
    elif new > 1 and not causal:
        mask = seen(new, k.shape[2], q.device)
    if shared:
        q = q.reshape(batch, 1, heads * new, q.shape[-1])
        if mask is not None:
            mask = mask.reshape(batch, 1, heads * new, -1) if not plain else mask.repeat(heads, 1)
    out = F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal, scale=scale
    )
    return out.reshape(batch, heads, new, v.shape[-1])


def masked_scores(
    q: torch.Tensor, k: torch.Tensor, *, scale: float, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """Scaled scores, -inf where a token is not seen, in float32 or better: [B, H, T, S]."""
    scores = (q @ k.transpose(-1, -2)).to(torch.promote_types(q.dtype, torch.float32)) * scale
    if bias is not None:
        scores = scores + bias
    return hide_future(scores)


def hide_future(scores: torch.Tensor) -> torch.Tensor:
    """Scores [..., T, S] with -inf where a token is not seen; a single new one sees all."""
    new, total = scores.shape[-2:]
    if new == 1:
        return scores
    return scores.masked_fill(~seen(new, total, scores.device), float("-inf"))


def softmax(scores: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return scores.softmax(dim=-1).to(dtype)


def seen(new: int, total: int, device: torch.device) -> torch.Tensor:
    """Whether new token i sees token j, [T, S]."""
    return torch.ones(new, total, dtype=torch.bool, device=device).tril(total - new)


def keys_seen(new: int, total: int, device: torch.device) -> torch.Tensor:
    """How many tokens each new token sees, [T, 1], float32."""
    counts = torch.arange(total - new + 1, total + 1, device=device, dtype=torch.float32)
    return counts[:, None]
