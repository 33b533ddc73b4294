"""One attention layer of the family: a source, a reciprocal form, a core, codecs and a gate.

Every token goes through what a cache would keep of it, whether there is a cache or not:
project, encode, (append,) decode, attend.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from assay.kv import contract
from assay.kv.cache import LayerCache
from assay.kv.contract import Layout, Stream
from assay.kv.layouts.mla_latent import NAMES
from assay.models.gpt2.composition import Variant
from assay.models.gpt2.config import ModelConfig
from assay.models.gpt2.coupling import AttentionExports
from assay.models.gpt2.linear import linear
from assay.models.gpt2.softmax_attention import SoftmaxAttention
from assay.models.gpt2.sources import DenseProjection


class SelfAttention(nn.Module):
    """x [B, T, E] -> [B, T, E], and what the MLP of the block may read."""

    def __init__(
        self, config: ModelConfig, variant: Variant, layer: int, *, wants_weights: bool
    ) -> None:
        super().__init__()
        self.reciprocal = variant.build("reciprocal", config, layer)
        self.gating = variant.build("gating", config, layer)
        self.output = variant.build("output", config, layer)
        self.plain = SoftmaxAttention(dropout=config.dropout, explicit=wants_weights)
        reads = self.reciprocal.reads if self.reciprocal else {"k": config.n_head}
        if "kv" in variant.parts:
            self.source, self.codecs = _latent_source(config, variant, layer, reads)
        else:
            self.source, self.codecs = DenseProjection(config, reads=reads), nn.ModuleList()
        self.layout = contract.load(self.source.layout)
        self.c_proj = linear(config, config.n_head * config.head_dim, config.n_embd, residual=True)

    def streams(self, dtype: str) -> tuple[Stream, ...]:
        """What a cache keeps of each token."""
        codes = tuple(codec.code_width for codec in self.codecs)
        spec = self.source.kv_spec(dtype, codes) if codes else self.source.kv_spec(dtype)
        return self.layout.streams(spec)

    def forward(
        self,
        x: torch.Tensor,
        *,
        past: LayerCache | None,
        added_latent: torch.Tensor | None,
        head_factor: torch.Tensor | None,
    ) -> tuple[torch.Tensor, AttentionExports]:
        values = self.source.values(x, start=past.start if past else 0, added=added_latent)
        coding = self._coding(past)
        fresh = coding.encode(self.source.kept(values))
        stored = past.append(fresh) if past else fresh
        view = self.source.view(
            values, fresh, stored, coding, cached=past is not None, training=self.training
        )
        core = self.gating or self.plain
        given = self.reciprocal(view, core) if self.reciprocal else view.attend(core, *view.pair())
        out = given.out if head_factor is None else given.out * head_factor.to(given.out.dtype)
        merged = out.transpose(1, 2).flatten(2)
        if self.output is not None:
            merged = self.output(merged, x)
        return self.c_proj(merged), AttentionExports(self.source.latent(values), given.weights)

    def _coding(self, past: LayerCache | None) -> "LayerCodec":
        """The layout with its codecs; for a cache they are made ready once."""
        if past is None:
            return LayerCodec(self.layout, list(self.codecs))
        if past.codecs is None:
            with torch.no_grad():
                past.codecs = [codec.ready() for codec in self.codecs]
        return LayerCodec(self.layout, past.codecs)


class LayerCodec(NamedTuple):
    """How what a layer computes becomes what is kept, and latents again."""

    layout: Layout
    codecs: Sequence[Any]

    def encode(self, values: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return self.layout.encode(values, self.codecs)

    def decode(self, stored: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return self.layout.decode(stored, self.codecs)

    def expansions(self) -> dict[str, tuple[torch.Tensor, torch.Tensor | None]] | None:
        """How each latent follows from its code, where that is affine for all; else None."""
        found = {name: codec.expansion() for name, codec in zip(NAMES, self.codecs, strict=False)}
        return None if None in found.values() else found


def _latent_source(
    config: Any, variant: Variant, layer: int, reads: Mapping[str, int]
) -> tuple[nn.Module, nn.ModuleList]:
    made_of = variant.build("latents", config, layer)
    count = len(made_of) if made_of else 1
    codecs = [variant.build("splice", config, layer) for _ in range(count)]
    source = variant.build(
        "kv",
        config,
        layer,
        reads=reads,
        reciprocal="reciprocal" in variant.parts,
        made_of=made_of,
        rope=variant.build("positions", config, layer),
        spliced=codecs[0] is not None,
    )
    return source, nn.ModuleList(codec for codec in codecs if codec is not None)
