"""Arguments that transformers gives to eager attention: a mask, and the layer that calls it."""

from types import SimpleNamespace

import torch


def additive_mask(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """The library's own causal mask of q [B, H, M, D] over k [B, G, N, D], queries last."""
    from transformers.masking_utils import eager_mask

    batch, _, queries, _ = q.shape
    keys = k.shape[2]
    return eager_mask(batch, queries, keys, q_offset=keys - queries, dtype=q.dtype, device=q.device)


def stand_in(q: torch.Tensor, k: torch.Tensor) -> SimpleNamespace:
    """The attributes of an attention layer that its eager attention reads."""
    groups = q.shape[1] // k.shape[1]
    return SimpleNamespace(num_key_value_groups=groups, training=False, head_dim=q.shape[-1])
