"""A step of latent attention as three products: into the rows' space, over the rows, and out of it.

Between the input of a layer and its output everything but attention is affine: the latent, its
code, the queries, the maps that make keys and values of a row, the projection at the end.
Multiplied out once, with the weights of a cache's first call, a step costs the launches of GPT-2's
own.

E width of the model, H heads, D head dimension, R width of a row, T new tokens.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from assay.attention.decoders import DENSE, DecodeSizes
from assay.kv.cache import LayerCache
from assay.kv.layouts.mla_latent import NAMES
from assay.models.gpt2.softmax_attention import CacheReading


class AffineMap(NamedTuple):
    """x -> weight x + bias, in float32 or better; heads may stand before the rows of both."""

    weight: torch.Tensor  # [..., out, in]
    bias: torch.Tensor  # [..., out]

    @classmethod
    def of(cls, linear: nn.Linear) -> "AffineMap":
        return cls.made(linear.weight, linear.bias)

    @classmethod
    def made(cls, weight: torch.Tensor, bias: torch.Tensor | None) -> "AffineMap":
        wide = torch.promote_types(weight.dtype, torch.float32)
        bias = weight.new_zeros(weight.shape[:-1]) if bias is None else bias
        return cls(weight.to(wide), bias.to(wide))

    def after(self, first: "AffineMap | None") -> "AffineMap":
        """This map behind another."""
        if first is None:
            return self
        bias = (self.weight @ first.bias[..., None])[..., 0] + self.bias
        return AffineMap(self.weight @ first.weight, bias)

    def heads(self, count: int) -> "AffineMap":
        """[H D, in] as [H, D, in]."""
        return AffineMap(self.weight.unflatten(0, (count, -1)), self.bias.unflatten(0, (count, -1)))


@dataclass(frozen=True, kw_only=True)
class AbsorbedStep:
    """The maps of a layer. `enter` gives the queries of all heads and then the new rows."""

    enter: tuple[torch.Tensor, torch.Tensor]  # [H R + all rows, E] and its bias
    leave: tuple[torch.Tensor, torch.Tensor]  # [E, H R'] and its bias
    heads: int
    scale: float
    rows: Mapping[str, int]  # widths, by stream
    keys: str  # streams
    values: str

    def __call__(
        self, x: torch.Tensor, past: LayerCache, reading: CacheReading
    ) -> torch.Tensor | None:
        """x [B, T, E] -> [B, T, E]; None, and nothing written, where no kernel is to be used."""
        width, tokens = self.rows[self.keys], x.shape[1]
        shared = self.keys == self.values
        if not shared:  # rows of two latents are keys and values of one head
            reading = reading._replace(layout=DENSE)
        sizes = DecodeSizes(
            heads=self.heads, kv_heads=1, head_dim=width,
            dtype=str(x.dtype).removeprefix("torch."), device=x.device.type, batch=x.shape[0],
            keys=past.start + tokens,
        )  # fmt: skip
        if reading.kernel(sizes, new=tokens) is None:
            return None
        parts = [self.heads * width, *self.rows.values()]
        queries, *new = F.linear(x, *self.enter).split(parts, dim=-1)
        q = queries.unflatten(-1, (self.heads, width)).transpose(1, 2)  # [B, H, T, R]
        stored = past.append(dict(zip(self.rows, new, strict=True)))
        if shared:
            out = reading.decode(q, {"latent": stored[self.keys]}, scale=self.scale,
                                 value_width=width)  # fmt: skip
        else:
            sides = {"k": stored[self.keys][:, None], "v": stored[self.values][:, None]}
            out = reading.decode(q, sides, scale=self.scale)
        assert out is not None  # [B, H, T, R']
        return F.linear(out.transpose(1, 2).flatten(2), *self.leave)


def made_ready(layer: Any, codecs: Sequence[Any]) -> AbsorbedStep | None:
    """The step of a SelfAttention with codecs that are made ready; None where something between its
    input and its output is not affine, or not there."""
    source, swapped = layer.source, getattr(layer.reciprocal, "swapped", None)
    if not hasattr(source, "made_of") or source.rope is not None or source.kept_queries:
        return None
    if layer.gating or layer.plain.explicit or (layer.reciprocal and swapped is None):
        return None
    if any(
        codec.expansion() is None or not isinstance(codec.norm, nn.Identity) for codec in codecs
    ):
        return None
    with torch.no_grad():
        roles = ("k", "q") if swapped else ("q", "k")
        return _multiplied_out(layer, codecs, near=roles[0], far=roles[1])


def _multiplied_out(layer: Any, codecs: Sequence[Any], *, near: str, far: str) -> AbsorbedStep:
    """The step whose new tokens have the role `near` and whose rows have the role `far`."""
    source, heads = layer.source, layer.source.heads
    coded = dict(zip(NAMES, codecs, strict=False))
    rows, vectors, stream_of = {}, {}, {}  # rows of x; vectors of heads of a row, by role
    for name, roles in source.made_of.items():
        rows[name] = AffineMap.of(source.to_latent[name])
        expand = None
        if name in coded:
            rows[name] = AffineMap.made(*coded[name].before).after(rows[name])
            expand = AffineMap.made(*coded[name].after)
        flat = AffineMap.of(source.from_latent[name])
        for role, weight, bias in zip(
            roles, flat.weight.chunk(len(roles)), flat.bias.chunk(len(roles)), strict=True
        ):
            vectors[role] = AffineMap(weight, bias).after(expand).heads(heads)
            stream_of[role] = name
    if near in vectors:  # of what is kept of the token itself
        new = vectors[near].after(rows[stream_of[near]])
    else:
        new = AffineMap.of(source.c_q).heads(heads)
    # q k = near(x) far(row) = (far^T near(x)) row, up to what is alike for all rows.
    queries = AffineMap(vectors[far].weight.mT, torch.zeros(())).after(new)  # [H, R, E]
    out = AffineMap.of(layer.c_proj)
    by_head = out.weight.unflatten(1, (heads, -1)).transpose(0, 1)  # [H, E, D]
    leave = by_head @ vectors["v"].weight  # [H, E, R']
    constant = (by_head @ vectors["v"].bias[..., None]).sum(dim=0)[:, 0] + out.bias
    enter = [AffineMap(queries.weight.flatten(0, 1), queries.bias.flatten()), *rows.values()]
    dtype = layer.c_proj.weight.dtype
    return AbsorbedStep(
        enter=(
            torch.cat([part.weight for part in enter]).to(dtype),
            torch.cat([part.bias for part in enter]).to(dtype),
        ),
        leave=(leave.transpose(0, 1).flatten(1).to(dtype), constant.to(dtype)),
        heads=heads,
        scale=source.scale,
        rows={name: part.weight.shape[0] for name, part in rows.items()},
        keys=stream_of[far],
        values=stream_of["v"],
    )
