"""Where queries, keys and values come from when nothing is compressed: GPT-2's own projection.

A source projects the new tokens (`values`), says what a cache keeps of them (`kv_spec`, `layout`)
and makes of what was kept a view for attention (`view`).

B batch, H heads, T new tokens, D head dimension, E width of the model.
"""

from collections.abc import Mapping
from math import sqrt
from typing import Any

import torch
from torch import nn

from assay.kv.contract import KVSpec
from assay.models.gpt2.config import ModelConfig
from assay.models.gpt2.linear import linear
from assay.models.gpt2.operands import ExpandedOperands, Operands


class DenseProjection(nn.Module):
    """q, k and v of every head in one projection. `reads` says which of k and q of earlier tokens
    are read, and of how many heads."""

    layout = "dense"

    def __init__(self, config: ModelConfig, *, reads: Mapping[str, int]) -> None:
        super().__init__()
        self.heads, self.head_dim = config.n_head, config.head_dim
        self.reads = dict(reads)
        self.scale = 1 / sqrt(self.head_dim)
        self.latent_width = self.heads * self.head_dim
        self.c_attn = linear(config, config.n_embd, 3 * self.latent_width)

    def kv_spec(self, dtype: str) -> KVSpec:
        return KVSpec(
            dtype=dtype,
            head_dim=self.head_dim,
            key_heads=self.reads.get("k", 0),
            query_heads=self.reads.get("q", 0),
            value_heads=self.heads,
        )

    def values(
        self, x: torch.Tensor, *, start: int, added: torch.Tensor | None
    ) -> dict[str, torch.Tensor]:
        """q, k and v of the new tokens, [B, H, T, D]; `added` [B, T, H D] is put on the keys."""
        batch, tokens, _ = x.shape
        q, k, v = self.c_attn(x).split(self.latent_width, dim=-1)
        if added is not None:
            k = k + added
        split = (batch, tokens, self.heads, self.head_dim)
        return {
            name: t.view(split).transpose(1, 2) for name, t in zip("qkv", (q, k, v), strict=True)
        }

    def kept(self, values: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """What of the values a cache keeps; of queries, those of the last heads that are read."""
        sides = {name: values[name][:, -count:] for name, count in self.reads.items() if count}
        return {**sides, "v": values["v"]}

    def latent(self, values: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """What stands for the latent where there is none: all keys, [B, T, H D]."""
        return values["k"].transpose(1, 2).flatten(2)

    def view(
        self,
        values: Mapping[str, torch.Tensor],
        fresh: Mapping[str, torch.Tensor],
        stored: Mapping[str, torch.Tensor],
        coding: Any,
        **how: bool,
    ) -> Operands:
        """`fresh` and `stored` are what is kept of the new tokens and of all of them."""
        return ExpandedOperands(new=values, all=stored, scale=self.scale, **how)

    def swap_roles_(self) -> bool:
        """Exchange the weights of queries and keys; True, for they are made alike."""
        with torch.no_grad():
            for weight in self.c_attn.parameters():
                q, k, _ = weight.split(self.latent_width)
                exchanged = torch.cat([k, q])
                weight[: 2 * self.latent_width] = exchanged
        return True
