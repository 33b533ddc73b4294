"""Causal softmax attention as the GPT-2 family calls it: fused, or with its weights in memory.

B batch, H query heads, G key heads (H, or 1 that all share), T new tokens, S tokens in all, D.
The mask is aligned bottom-right: new token i sees all tokens up to i + S - T.
"""

from collections import Counter
from typing import Any, NamedTuple

import torch
from torch.nn import functional as F

from assay.attention import decoders
from assay.attention.decoders import DENSE, DecodeKernel, DecodeSizes

_WIDEST = 256  # numbers of a head in torch's fused kernels


class AttentionOutput(NamedTuple):
    """The result of an attention kernel."""

    out: torch.Tensor  # [B, H, T, D]
    weights: torch.Tensor | None = None  # [B, H, T, S], where they are in memory
    factor: torch.Tensor | None = None  # [B, H, T, 1]: multiplies what becomes of `out`


class CacheReading(NamedTuple):
    """The way a pass reads a cache: the layout that it has, a decode kernel by name or `auto`, the
    lengths that count, int32 [B], where rows of whole buffers are given, and a count of calls."""

    layout: str
    decoder: str
    lengths: torch.Tensor | None
    scratch: Any
    kernels: Counter[str]

    def kernel(self, sizes: DecodeSizes, *, new: int) -> DecodeKernel | None:
        """The kernel for so many new tokens; None where torch's own attention does as well."""
        by_lengths = self.lengths is not None
        return decoders.for_step(
            self.layout, sizes, new=new, name=self.decoder, by_lengths=by_lengths
        )

    def decode(
        self, q: torch.Tensor, streams: dict[str, torch.Tensor], *, scale: float, **sizes: int
    ) -> torch.Tensor | None:
        """Attention of q [B, H, T, D] over streams of `layout`, [B, G, S, width] or rows of latents
        [B, S, width]; None where no kernel is to be used, or the pass is one to learn from."""
        if torch.is_grad_enabled() and q.requires_grad:
            return None
        first = next(iter(streams.values()))
        kv_heads = first.shape[1] if first.dim() == 4 else 1
        kernel = self.kernel(DecodeSizes.of(q, kv_heads, first.shape[-2]), new=q.shape[2])
        if kernel is None:
            return None
        self.kernels[kernel.name] += 1
        scratch = {"scratch": self.scratch} if "scratch" in kernel.accepts else {}
        return kernel.decode(q, streams, scale=scale, lengths=self.lengths, **scratch, **sizes)


class SoftmaxAttention:
    """The plain kernel. `explicit` keeps the weights in memory, else torch's fused kernels run."""

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
        reading: CacheReading | None = None,
    ) -> AttentionOutput:
        """q [B, H, T, D], k and v [B, G, S, D]; `bias` [B, H, T, S] is added to scaled scores."""
        dropout = self.dropout if training else 0.0
        if self.explicit:
            return explicit(q, k, v, scale=scale, bias=bias, dropout=dropout)
        if reading is not None and bias is None and not dropout:
            out = _decoded(q, k, v, scale=scale, reading=reading)
            if out is not None:
                return AttentionOutput(out)
        return fused(q, k, v, scale=scale, bias=bias, dropout=dropout)


def _decoded(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, scale: float, reading: CacheReading
) -> torch.Tensor | None:
    """Attention by a decode kernel, where one is to be used. A row that is key and value is read
    once; rows of two latents are keys and values of one head. Those that were decoded, or made of
    latents for many new tokens, are no cache."""
    if k.shape[1] == 1 and k.data_ptr() == v.data_ptr():
        return reading.decode(q, {"latent": k[:, 0]}, scale=scale, value_width=v.shape[-1])
    if reading.layout != DENSE and k.shape[1] > 1:
        return None
    return reading._replace(layout=DENSE).decode(q, {"k": k, "v": v}, scale=scale)


def fused(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float,
    bias: torch.Tensor | None = None,
    dropout: float = 0.0,
) -> AttentionOutput:
    """torch's kernel where it has one for this width; the weights in memory where it has none."""
    new, total = q.shape[2], k.shape[2]  # T, S
    if q.shape[-1] > _WIDEST:
        return explicit(q, k, v, scale=scale, bias=bias, dropout=dropout)._replace(weights=None)
    mask = None if bias is None else hide_future(bias).to(q.dtype)  # [B, H, T, S]
    causal = bias is None and 1 < new == total
    if bias is None and 1 < new < total:
        mask = visible(new, total, q.device)  # [T, S]
    out = F.scaled_dot_product_attention(
        q,
        k,
        v,
        attn_mask=mask,
        dropout_p=dropout,
        is_causal=causal,
        scale=scale,
        enable_gqa=k.shape[1] != q.shape[1],
    )
    return AttentionOutput(out)


def explicit(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float,
    bias: torch.Tensor | None = None,
    dropout: float = 0.0,
) -> AttentionOutput:
    """Attention with its weights in memory; they are given back as they are before dropout."""
    scores = scaled_scores(q, k, scale=scale, bias=bias)  # [B, H, T, S], float32 or better
    weights = hide_future(scores).softmax(dim=-1).to(q.dtype)
    return AttentionOutput(average(F.dropout(weights, dropout), v), weights)


def products(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """q kᵀ, [B, H, T, S]. Where all heads share the keys they are rows of one: no key is copied."""
    return (_rows(q, k) @ k.transpose(-1, -2)).view(*q.shape[:3], k.shape[2])


def average(weights: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Weights [B, H, T, S] and v [B, G, S, D] to [B, H, T, D], likewise without copies."""
    return (_rows(weights, v) @ v).view(*weights.shape[:3], v.shape[-1])


def _rows(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """q [B, H, T, D] where k has H heads; [B, 1, H T, D] where it has one."""
    return q if k.shape[1] == q.shape[1] else q.reshape(q.shape[0], 1, -1, q.shape[-1])


def scaled_scores(
    q: torch.Tensor, k: torch.Tensor, *, scale: float, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """Scores of all tokens, hidden ones too, in float32 or better: [B, H, T, S]."""
    scores = products(q, k).to(torch.promote_types(q.dtype, torch.float32)) * scale
    return scores if bias is None else scores + bias


def hide_future(scores: torch.Tensor) -> torch.Tensor:
    """Scores [..., T, S] with -inf where a token is not seen; a single new one sees all."""
    new, total = scores.shape[-2:]
    if new == 1:
        return scores
    return scores.masked_fill(~visible(new, total, scores.device), float("-inf"))


def visible(new: int, total: int, device: torch.device) -> torch.Tensor:
    """Mask [T, S], True where new token i sees token j."""
    return torch.ones(new, total, dtype=torch.bool, device=device).tril(total - new)


def visible_counts(new: int, total: int, device: torch.device) -> torch.Tensor:
    """Number of tokens that each new token sees, [T, 1], float32."""
    counts = torch.arange(total - new + 1, total + 1, device=device, dtype=torch.float32)
    return counts[:, None]
