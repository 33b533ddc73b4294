"""Steps of decoding as replays of one CUDA graph: the device and not Python sets the pace.

A step is captured once, for a cache and the model's weights as they are. It reads where it stands
from numbers on the device, and counts them on, so that every replay decodes the next token.
"""

from typing import Any

import torch

from assay.attention.decoders import TORCH, readers
from assay.errors import BadInput
from assay.kv.cache import Cache, LayerCache
from assay.kv.device_place import CapturedStep, DevicePlace


def why_not(model: Any, cache: Cache) -> str | None:
    """The reason why steps of a model through a cache cannot be captured; None where they can."""
    for block, layer in zip(model.h, cache.layers, strict=True):
        if reason := _why_not(block, layer):
            return reason
    if model.wte.weight.device.type != "cuda":
        return "there are no CUDA graphs without a GPU"
    return None


def _why_not(block: Any, layer: LayerCache) -> str | None:
    attn, encoding = block.attn, layer.encoded and layer.encoded.encoding
    layout = (encoding.layout if encoding else attn.layout).name
    if block.couplings or layer.states:
        return "its blocks hand on more than the stream"
    if attn.gating or attn.plain.explicit or attn.training:
        return "its attention keeps weights in memory, or learns"
    if attn.reciprocal and getattr(attn.reciprocal, "swapped", None) is None:
        return "its attention reads keys and queries of earlier tokens together"
    if getattr(attn.source, "rope", None) is not None:
        return "its positions are turned by the host's count"
    if getattr(attn.source, "kept_queries", 0):
        return "it keeps queries beside latents, which no kernel reads"
    if layer.decoder == TORCH:
        return "it was asked to decode without kernels"
    if layout not in readers(layout) or (encoding and not encoding.is_read_as_kept):
        return f"no kernel reads {layout} as it is kept"
    if encoding and not layer.encoded.buffers:
        return "its cache is empty: read a prompt first"
    return None


class GraphedSteps:
    """Logits [B, 1, V] of the token after `tokens` [B, 1], which follow those in the cache; the
    next call writes over them."""

    def __init__(self, model: Any, cache: Cache) -> None:
        if reason := why_not(model, cache):
            raise BadInput(f"steps of {type(model).__name__} cannot be replayed: {reason}")
        self.model, self.cache = model, cache
        self.captured = CapturedStep(
            self._step, batch=cache.batch, length=cache.length, device=model.wte.weight.device
        )

    def __call__(self, tokens: torch.Tensor) -> torch.Tensor:
        room = min(self.cache.capacity, self.model.config.block_size)
        logits = self.captured(tokens, length=self.cache.length, room=room)
        self.cache.count(1)
        return logits

    def _step(self, tokens: torch.Tensor, place: DevicePlace) -> torch.Tensor:
        with self.cache.placed(place):
            logits, _, _ = self.model(tokens, cache=self.cache)
        return logits
