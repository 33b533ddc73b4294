"""One attention layer of the family: a projection, a reciprocal form, a kernel, codecs and a gate.

Every token goes through what a cache would keep of it, whether there is a cache or not:
project, encode, (append,) decode, attend. A projection makes vectors of the new tokens (`values`),
says what a cache keeps of them (`kv_spec`, `layout`) and gives attention its operands; here is
GPT-2's own, the latent one is a part.

B batch, H heads, T new tokens, S tokens in all, D head dimension, E width of the model.
"""

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any, NamedTuple

import torch
from torch import nn

from assay import plugins
from assay.attention.decoders import AUTO, MOST_NEW
from assay.errors import BadInput
from assay.kv import contract
from assay.kv.cache import LayerCache
from assay.kv.contract import KVSpec, Layout, Stream
from assay.kv.encoded import EncodedLayer
from assay.kv.key_bias import KeyBias
from assay.kv.layouts.mla_latent import NAMES
from assay.models.gpt2.absorbed_step import made_ready
from assay.models.gpt2.config import ModelConfig
from assay.models.gpt2.linear import linear
from assay.models.gpt2.mlp import AttentionExports
from assay.models.gpt2.operands import ExpandedOperands, Operands
from assay.models.gpt2.softmax_attention import (
    AttentionOutput,
    CacheReading,
    SoftmaxAttention,
)
from assay.models.gpt2.variants import Variant


class SelfAttention(nn.Module):
    """x [B, T, E] -> [B, T, E], and what the MLP of the block may read."""

    def __init__(
        self,
        config: ModelConfig,
        variant: Variant,
        layer: int,
        *,
        wants_weights: bool,
        exports: bool,
    ) -> None:
        """`exports` says that the MLP of the block reads something of it."""
        super().__init__()
        self.exports = exports
        self.reciprocal = variant.build("reciprocal", config, layer)
        self.gating = variant.build("gating", config, layer)
        self.output = variant.build("output", config, layer)
        self.plain = SoftmaxAttention(dropout=config.dropout, explicit=wants_weights)
        reads = self.reciprocal.reads if self.reciprocal else {"k": config.n_head}
        if "kv" in variant.parts:
            self.source, self.codecs = _latent_projection(config, variant, layer, reads)
        else:
            self.source, self.codecs = DenseProjection(config, reads=reads), nn.ModuleList()
        beside = plugins.folders_beside(*(part.path for part in variant.parts.values()))
        self.layout = contract.load(self.source.layout, beside)
        self.c_proj = linear(config, config.n_head * config.head_dim, config.n_embd, residual=True)

    def streams(self, dtype: str, layout: Layout | None = None) -> tuple[Stream, ...]:
        """Streams that a cache keeps of each token, in another layout than the layer's own where
        one is given."""
        codes = tuple(codec.code_width for codec in self.codecs)
        spec = self.source.kv_spec(dtype, codes) if codes else self.source.kv_spec(dtype)
        streams = (layout or self.layout).streams(spec)
        if layout and (not spec.value_heads or "v" not in {stream.name for stream in streams}):
            raise BadInput(
                f"layout {layout.name} cannot stand for {self.layout.name}, which this layer's "
                "cache has: only layouts of keys and values take each other's place"
            )
        return streams

    def forward(
        self,
        x: torch.Tensor,
        *,
        past: LayerCache | None,
        added_latent: torch.Tensor | None,
        head_factor: torch.Tensor | None,
    ) -> tuple[torch.Tensor, AttentionExports]:
        """`added_latent` [B, T, latent width] and `head_factor` [B, H, T, 1] are what the block
        before sends."""
        reading = self._reading(past)
        if reading and self.output is None and added_latent is None and head_factor is None:
            stepped = self._absorbed_step(x, past, reading)
            if stepped is not None:
                return stepped, AttentionExports(x, None)
        values = self.source.values(x, start=past.start if past else 0, added=added_latent)
        attended = self._attended(values, past, reading)
        out = attended.out  # [B, H, T, D]
        if head_factor is not None:
            out = out * head_factor.to(out.dtype)
        merged = out.transpose(1, 2).flatten(2)  # [B, T, H D]
        if self.output is not None:
            merged = self.output(merged, x)
        exports = AttentionExports(self.source.latent(values), attended.weights)
        return self.c_proj(merged), exports

    def _attended(
        self,
        values: Mapping[str, torch.Tensor],
        past: LayerCache | None,
        reading: CacheReading | None,
    ) -> AttentionOutput:
        """Attention of the new tokens over all of them, through what a cache keeps."""
        kept, codec = self.source.kept(values), self._codec(past)
        if past and past.encoded:
            out = self._through_streams(values["q"], kept, past.encoded, reading)
            if out is not None:
                return AttentionOutput(out)
            fresh, stored = kept, past.encoded.read()
        else:
            fresh = codec.encode(kept)
            stored = past.append(fresh) if past else fresh
        operands = self.source.operands(
            values, fresh, stored, codec, reading=reading, training=self.training
        )
        kernel = self.gating or self.plain
        if self.reciprocal:
            return self.reciprocal(operands, kernel)
        return operands.attend(kernel, *operands.pair())

    def _through_streams(
        self,
        q: torch.Tensor,
        kept: Mapping[str, torch.Tensor],
        encoded: EncodedLayer,
        reading: CacheReading,
    ) -> torch.Tensor | None:
        """Write what is kept; attention by a kernel that reads it as it is, where one is to be
        used."""
        encoded.write(kept)
        weighted = self.reciprocal or self.gating or self.plain.explicit or self._drops_weights
        if weighted or not encoded.encoding.is_read_as_kept:
            return None
        stored = encoded.streams()
        out = reading.decode(q, stored, scale=self.source.scale)
        if out is not None:
            encoded.count_reading(stored)
        return out

    def _absorbed_step(
        self, x: torch.Tensor, past: LayerCache, reading: CacheReading
    ) -> torch.Tensor | None:
        """A step over latents with all maps around them multiplied out beforehand; None where that
        is another computation, or no kernel is to be used."""
        learns = torch.is_grad_enabled() or torch.is_autocast_enabled(x.device.type)
        learns = learns or self._drops_weights
        if learns or self.exports or past.encoded or x.shape[1] > MOST_NEW:
            return None
        if x.device.type == "cpu" and reading.decoder == AUTO:
            return None  # no kernel would be used, so that nothing is to be made ready
        if past.ready is None:
            past.ready = made_ready(self, self._codec(past).codecs) or False
        return past.ready(x, past, reading) if past.ready else None

    @property
    def _drops_weights(self) -> bool:
        return self.training and self.plain.dropout > 0

    def _reading(self, past: LayerCache | None) -> CacheReading | None:
        if past is None:
            return None
        lengths = past.place.lengths if past.place else None
        layout = past.encoded.encoding.layout if past.encoded else self.layout
        return CacheReading(layout.name, past.decoder, lengths, past.scratch, past.kernels)

    def _codec(self, past: LayerCache | None) -> "LayerCodec":
        """The layout with its codecs; for a cache they are made ready once."""
        if past is None:
            return LayerCodec(self.layout, list(self.codecs))
        if past.codecs is None:
            with torch.no_grad():
                past.codecs = [codec.ready() for codec in self.codecs]
        return LayerCodec(self.layout, past.codecs)


class LayerCodec(NamedTuple):
    """The way from what a layer computes to what is kept, and back to latents."""

    layout: Layout
    codecs: Sequence[Any]

    def encode(self, values: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return self.layout.encode(values, self.codecs)

    def decode(self, stored: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return self.layout.decode(stored, self.codecs)

    def expansions(self) -> dict[str, tuple[torch.Tensor, torch.Tensor | None]] | None:
        """The affine map from each code to its latent, by the latent's name; None where one of
        them is not affine."""
        maps = {name: codec.expansion() for name, codec in zip(NAMES, self.codecs, strict=False)}
        return None if None in maps.values() else maps


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
        q, k, v = self.c_attn(x).split(self.latent_width, dim=-1)  # each [B, T, H D]
        if added is not None:
            k = k + added
        shape = (batch, tokens, self.heads, self.head_dim)
        return {
            name: flat.view(shape).transpose(1, 2)
            for name, flat in zip("qkv", (q, k, v), strict=True)
        }

    def kept(self, values: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The values that a cache keeps; of queries, those of the last heads that are read."""
        counts, every = {**self.reads, "v": self.heads}, self.heads
        # All heads are not sliced: in the backward pass a slice is one more copy.
        return {s: values[s] if n == every else values[s][:, -n:] for s, n in counts.items() if n}

    def latent(self, values: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """All keys, [B, T, H D], in the place of the latent that there is none of."""
        return values["k"].transpose(1, 2).flatten(2)

    def operands(
        self,
        values: Mapping[str, torch.Tensor],
        fresh: Mapping[str, torch.Tensor],
        stored: Mapping[str, torch.Tensor],
        codec: LayerCodec,
        **mode: Any,
    ) -> Operands:
        """`fresh` and `stored` are what is kept of the new tokens and of all of them."""
        return ExpandedOperands(new=values, all=codec.decode(stored), scale=self.scale, **mode)

    def key_bias(self) -> KeyBias | None:
        """The bias of the keys that are kept; None where the projection has none."""
        if self.c_attn.bias is None:
            return None
        _, bias, _ = self.c_attn.bias.detach().split(self.latent_width)
        unread = self.heads - self.reads.get("k", 0)
        return KeyBias(bias=bias.view(self.heads, self.head_dim)[unread:])

    def swap_roles_(self) -> bool:
        """Exchange the weights of queries and keys; True, for they are made alike."""
        with torch.no_grad():
            for weight in self.c_attn.parameters():
                q, k, _ = weight.split(self.latent_width)
                exchanged = torch.cat([k, q])
                weight[: 2 * self.latent_width] = exchanged
        return True


def _latent_projection(
    config: Any, variant: Variant, layer: int, reads: Mapping[str, int]
) -> tuple[nn.Module, nn.ModuleList]:
    """The part in the slot `kv` and the codecs of its latents."""
    made_of = variant.build("latents", config, layer)
    count = len(made_of) if made_of else 1
    codecs = [variant.build("splice", config, layer) for _ in range(count)]
    projection = variant.build(
        "kv",
        config,
        layer,
        reads=reads,
        reciprocal="reciprocal" in variant.parts,
        made_of=made_of,
        rope=variant.build("positions", config, layer),
        spliced=codecs[0] is not None,
    )
    return projection, nn.ModuleList(codec for codec in codecs if codec is not None)
