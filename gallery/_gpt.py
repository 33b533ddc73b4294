"""Attention alone of a GPT's layer that projects and attends in one."""

import torch


def without_projections(
    layer: torch.nn.Module, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> torch.Tensor:
    """q, k and v [B, H, M, D] -> [B, H, M, D], by a CausalSelfAttention made for one channel a
    head: its projections are replaced by what q, k and v are given as."""
    batch, heads, length, dim = q.shape
    layer.n_embd = heads * dim
    flat = [x.transpose(1, 2).reshape(batch, length, -1) for x in (q, k, v)]  # [B, M, H D]
    del layer.c_attn
    layer.c_attn = lambda x: torch.cat(flat, dim=2)
    layer.c_proj = torch.nn.Identity()
    return layer(flat[0]).view(batch, length, heads, dim).transpose(1, 2)
