"""Eager attention of transformers, with the arguments that its models give: a mask, and a layer."""

from types import ModuleType, SimpleNamespace

import torch


def eager_attention(
    model: ModuleType,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool,
    scale: float,
) -> torch.Tensor:
    """q [B, H, M, D], k and v [B, G, N, D] -> [B, H, M, D], by the function of a model's file."""
    mask = _additive_mask(q, k) if causal else None
    out, _ = model.eager_attention_forward(_layer(q, k), q, k, v, mask, scaling=scale)
    return out.transpose(1, 2)


def _additive_mask(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """The library's own causal mask of q [B, H, M, D] over k [B, G, N, D], queries last."""
    from transformers.masking_utils import eager_mask

    batch, _, queries, _ = q.shape
    keys = k.shape[2]
    return eager_mask(batch, queries, keys, q_offset=keys - queries, dtype=q.dtype, device=q.device)


def _layer(q: torch.Tensor, k: torch.Tensor) -> SimpleNamespace:
    """The attributes of an attention layer that its eager attention reads."""
    groups = q.shape[1] // k.shape[1]
    return SimpleNamespace(num_key_value_groups=groups, training=False, head_dim=q.shape[-1])
