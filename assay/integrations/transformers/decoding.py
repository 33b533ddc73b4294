"""An attention function for models of transformers that lets decode kernels read the cache.

A LayoutCache hands such a model the keys of the new tokens alone, and with them itself; kernels
then read what it keeps as it is. Where none is to be used (many new tokens, a mask, a layout or a
device without one) the cache is decoded whole and torch's attention reads that, as without this
function.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn import functional as F
from transformers.masking_utils import AttentionMaskInterface
from transformers.modeling_utils import AttentionInterface

from assay.attention import decoders
from assay.attention.decoders import DecodeKernel, DecodeSizes
from assay.errors import BadInput
from assay.integrations.transformers.attention import PREFIX, plain_mask, refuse_extras
from assay.kv.encoded import EncodedLayer

NAME = f"{PREFIX}decode"
_CARRIED = "_assay_cache"


@dataclass(frozen=True)
class KernelReader:
    """The way a model reads a cache: through kernels, where its attention function is ours."""

    model: Any
    decoder: str
    kernels: Counter[str] = field(default_factory=Counter)  # calls of each

    def reads(self, encoded: EncodedLayer) -> bool:
        named = self.model.config.get_text_config(decoder=True)._attn_implementation
        return named == NAME and encoded.encoding.is_read_as_kept

    def kernel(self, encoded: EncodedLayer, q: torch.Tensor, kv_heads: int) -> DecodeKernel | None:
        """The kernel for queries [B, H, T, D]; None where the cache is to be decoded whole."""
        if torch.is_grad_enabled() and q.requires_grad:
            return None
        return decoders.for_step(
            encoded.encoding.layout.name, DecodeSizes.of(q, kv_heads, encoded.length),
            new=q.shape[2], name=self.decoder, by_lengths=encoded.place is not None,
        )  # fmt: skip


def register_decode() -> str:
    """Register the function; return the name for `attn_implementation`."""
    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, plain_mask)
    return NAME


def carrying(keys: torch.Tensor, encoded: EncodedLayer, reader: KernelReader) -> torch.Tensor:
    """Keys of new tokens that bring their cache to the attention function."""
    setattr(keys, _CARRIED, (encoded, reader))
    return keys


def attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **rest: Any,
) -> tuple[torch.Tensor, None]:
    """q [B, H, T, D], k and v [B, G, T or S, D] -> [B, T, H, D]."""
    refuse_extras(rest)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    encoded, reader = getattr(key, _CARRIED, (None, None))
    if encoded is not None:
        kernel = None
        if attention_mask is None and not dropout:
            kernel = reader.kernel(encoded, query, key.shape[1])
        if kernel is not None:
            streams = encoded.streams()
            encoded.count_reading(streams)
            reader.kernels[kernel.name] += 1
            lengths = encoded.place.lengths if encoded.place is not None else None
            out = kernel.decode(query, streams, scale=scale, lengths=lengths)
            return out.transpose(1, 2).contiguous(), None
        if encoded.place is not None:
            raise BadInput("a step that is replayed takes no mask, no dropout and no gradients")
        read = encoded.read()
        key, value = read["k"], read["v"]
    causal = attention_mask is None and query.shape[-2] > 1 and getattr(module, "is_causal", True)
    if causal and query.shape[-2] < key.shape[-2]:  # torch's own is aligned with the first key
        new, total = query.shape[-2], key.shape[-2]
        visible = torch.ones(new, total, dtype=torch.bool, device=query.device)
        attention_mask, causal = visible.tril(total - new), False
    mask = None if attention_mask is None else attention_mask[..., : key.shape[-2]]
    out = F.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, dropout_p=dropout, is_causal=causal, scale=scale,
        enable_gqa=key.shape[1] != query.shape[1],
    )  # fmt: skip
    return out.transpose(1, 2).contiguous(), None
