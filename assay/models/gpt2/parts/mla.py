"""Multi-head latent attention: keys and values are made of a latent, which is all that is kept.

After DeepSeek-V2 (arXiv 2405.04434), section 2.1, with learned absolute positions and no rotation
of what comes out of the latent, so that the maps out of it can be absorbed when decoding. With
reciprocal attention the queries come out of the latent too: then it holds every role of a token,
and reading the queries of earlier tokens costs no further bytes.
"""

from collections.abc import Mapping
from math import sqrt
from typing import Any

import torch
from torch import nn

from assay.kv.contract import KVSpec
from assay.models.gpt2.config import RA_MLA_Config
from assay.models.gpt2.linear import linear
from assay.models.gpt2.operands import AbsorbedOperands, ExpandedOperands, Operands, RowMap
from assay.models.gpt2.softmax_attention import CacheReading

TAG = "MLA"
SLOT = "kv"
OPTIONS = {"d_latent": {"default": 256, "tiny": 12, "latent": True}}
JOINT = {"latent": ("k", "v")}
TOKEN = {"latent": ("q", "k", "v")}


def build(
    config: RA_MLA_Config,
    layer: int,
    *,
    reads: Mapping[str, int],
    reciprocal: bool,
    made_of: Mapping[str, tuple[str, ...]] | None,
    rope: nn.Module | None,
    spliced: bool,
) -> "LatentProjection":
    """`reads`: sides of earlier tokens that are read, with their heads; `made_of`: which roles
    come out of which latent, where a part says so; `rope`: decoupled rotary positions."""
    made_of = made_of or (TOKEN if reciprocal else JOINT)
    return LatentProjection(
        config,
        reads=reads if reciprocal else {},
        made_of=made_of,
        rope=rope,
        spliced=spliced,
    )


class LatentProjection(nn.Module):
    """Latents of a token, and the maps that make heads of them.

    B batch, H heads, T new tokens, S tokens in all, D head dimension, E width of the model, R width
    of a latent, r rotated dimensions.
    """

    def __init__(
        self,
        config: RA_MLA_Config,
        *,
        reads: Mapping[str, int],
        made_of: Mapping[str, tuple[str, ...]],
        rope: nn.Module | None,
        spliced: bool,
    ) -> None:
        super().__init__()
        self.layout = "splice" if spliced else "mla_latent"
        self.heads, self.head_dim = config.n_head, config.head_dim
        self.made_of = dict(made_of)
        self.latent_width = config.d_latent
        from_latent = any("q" in roles for roles in made_of.values())
        # Queries that no latent gives are kept whole where later tokens read them.
        self.kept_queries = 0 if from_latent else reads.get("q", 0)
        self.rope = rope
        self.scale = 1 / sqrt(self.head_dim + (rope.dims if rope else 0))
        wide = self.heads * self.head_dim
        self.c_q = None if from_latent else linear(config, config.n_embd, wide)
        self.to_latent = nn.ModuleDict(
            {name: linear(config, config.n_embd, config.d_latent) for name in made_of}
        )
        self.from_latent = nn.ModuleDict(
            {n: linear(config, config.d_latent, len(r) * wide) for n, r in made_of.items()}
        )

    def kv_spec(self, dtype: str, codes: tuple[int, ...] = ()) -> KVSpec:
        return KVSpec(
            dtype=dtype,
            head_dim=self.head_dim,
            query_heads=self.kept_queries,
            latents=(self.latent_width,) * len(self.made_of),
            codes=codes,
            rope_dims=self.rope.dims if self.rope else 0,
        )

    def key_bias(self) -> None:
        """None: what is kept is no key."""

    def values(
        self, x: torch.Tensor, *, start: int, added: torch.Tensor | None
    ) -> dict[str, torch.Tensor]:
        """The latents of the new tokens, [B, T, R]; `added` is put on the first of them.

        With them "q" [B, H, T, D] where no latent gives it, and "rope_q" [B, H, T, r] and "rope"
        [B, T, r] where positions are rotated.
        """
        values = {name: project(x) for name, project in self.to_latent.items()}
        if added is not None:
            first = next(iter(values))
            values[first] = values[first] + added
        if self.c_q is not None:
            values["q"] = self._split(self.c_q(x))
        if self.rope is not None:
            values["rope_q"], values["rope"] = self.rope(x, start)
        return values

    def kept(self, values: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The values that a cache keeps."""
        kept = {name: value for name, value in values.items() if name not in ("q", "rope_q")}
        if self.kept_queries:
            kept["q"] = values["q"][:, -self.kept_queries :]
        return kept

    def latent(self, values: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The first latent, [B, T, R]."""
        return values[next(iter(self.made_of))]

    def operands(
        self,
        values: Mapping[str, torch.Tensor],
        fresh: Mapping[str, torch.Tensor],
        stored: Mapping[str, torch.Tensor],
        codec: Any,
        *,
        reading: CacheReading | None,
        training: bool,
    ) -> Operands:
        """`fresh` and `stored` are what is kept of the new tokens and of all of them."""
        mode = {"scale": self.scale, "reading": reading, "training": training}
        rope = values.get("rope_q")
        tokens = self.latent(values).shape[1]
        if reading is not None and self._pays_to_absorb(tokens):
            return self._absorbed(values, fresh, stored, codec, rope, mode)
        every = self._heads(codec.decode(stored))  # [B, H, S, D] by role
        new = {name: every[name][:, :, -tokens:] for name in every if name != "v"}
        if self.c_q is not None:
            new["q"] = values["q"]
            if self.kept_queries:
                every["q"] = stored["q"]
        if rope is not None:
            new["q"] = torch.cat([new["q"], rope], dim=-1)
        return ExpandedOperands(new=new, all=every, **mode)

    def _pays_to_absorb(self, new: int) -> bool:
        """True where it takes fewer multiplications: T rows of width R for each head and token
        against D, and the expansion of every token. Queries that are kept whole have no row to be
        scored with."""
        wide, dim = self.latent_width, self.head_dim
        return not self.kept_queries and new * (wide - dim) < wide * dim

    def _absorbed(
        self,
        values: Mapping[str, torch.Tensor],
        fresh: Mapping[str, torch.Tensor],
        stored: Mapping[str, torch.Tensor],
        codec: Any,
        rope: torch.Tensor | None,
        mode: dict[str, Any],
    ) -> AbsorbedOperands:
        expansions = codec.expansions()
        if expansions is None:  # a codec that is not affine: rows are its latents
            stored = codec.decode(stored)
            expansions = {}
        rows, maps = {}, {}
        for name, roles in self.made_of.items():
            for role, (weight, bias) in self._role_maps(name, roles).items():
                rows[role] = stored[name]
                maps[role] = RowMap(weight=weight, bias=bias, expand=expansions.get(name))
        new = self._heads(codec.decode(fresh)) if self.c_q is None else {"q": values["q"]}
        return AbsorbedOperands(new=new, rows=rows, maps=maps, rope=rope, **mode)

    def _heads(self, latents: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """All roles that come out of latents, [B, H, S, D], the rotated dimensions behind k."""
        vectors = {}
        for name, roles in self.made_of.items():
            latent = latents[name][..., : self.latent_width]  # [B, S, R]
            flat = self.from_latent[name](latent).chunk(len(roles), dim=-1)  # each [B, S, H D]
            vectors |= {role: self._split(part) for role, part in zip(roles, flat, strict=True)}
        if self.rope is not None:
            turned = latents[next(iter(self.made_of))][:, None, :, self.latent_width :]
            turned = turned.expand(-1, self.heads, -1, -1)  # [B, H, S, r]
            vectors["k"] = torch.cat([vectors["k"], turned], dim=-1)
        return vectors

    def _role_maps(
        self, name: str, roles: tuple[str, ...]
    ) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        """Weight [H, D, R] and bias [H, D] of each role that a latent gives."""
        linear = self.from_latent[name]
        split = (len(roles), self.heads, self.head_dim)
        weights = linear.weight.view(*split, self.latent_width)
        biases = linear.weight.new_zeros(split) if linear.bias is None else linear.bias.view(split)
        return {role: (weights[i], biases[i]) for i, role in enumerate(roles)}

    def _split(self, wide: torch.Tensor) -> torch.Tensor:
        """[B, T, H D] -> [B, H, T, D]."""
        batch, tokens, _ = wide.shape
        return wide.view(batch, tokens, self.heads, self.head_dim).transpose(1, 2)

    def swap_roles_(self) -> bool:
        """Exchange the weights of queries and keys, where one latent gives both."""
        for name, roles in self.made_of.items():
            if {"q", "k"} <= set(roles):
                wide = self.heads * self.head_dim
                with torch.no_grad():
                    for weight in self.from_latent[name].parameters():
                        parts = dict(zip(roles, weight.split(wide), strict=True))
                        parts["q"], parts["k"] = parts["k"], parts["q"]
                        weight.copy_(torch.cat([parts[role] for role in roles]))
                return True
        return False
