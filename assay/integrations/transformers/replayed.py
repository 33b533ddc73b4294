"""Steps of a model of transformers through a LayoutCache as replays of one CUDA graph.

    cache = LayoutCache(model, "k16v8", capacity=4096)
    model(prompt, past_key_values=cache)
    steps = ReplayedSteps(model, cache)
    logits = steps(tokens)  # [batch, 1] -> [batch, 1, vocabulary], token after token

A step reads where it stands from numbers on the device and counts them on. Sequences are of one
length, without padding.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from assay.attention.decoders import TORCH, readers
from assay.errors import BadInput
from assay.integrations.transformers.cache import EncodedCacheLayer, LayoutCache
from assay.integrations.transformers.decoding import NAME
from assay.kv.device_place import CapturedStep, DevicePlace


class ReplayedSteps:
    """Logits of the token after those in the cache and `tokens`; the next call writes over them."""

    def __init__(self, model: Any, cache: LayoutCache) -> None:
        if reason := why_not(model, cache):
            raise BadInput(f"steps of {type(model).__name__} cannot be replayed: {reason}")
        self.model, self.cache = model, cache
        self.layers = [layer.encoded for layer in cache.layers]
        first = self.layers[0]
        self.captured = CapturedStep(
            self._step, batch=first.tail["v"].shape[0], length=first.length, device=model.device
        )

    def __call__(self, tokens: torch.Tensor) -> torch.Tensor:
        first = self.layers[0]
        logits = self.captured(tokens, length=first.length, room=first.capacity)
        for encoded in self.layers:
            encoded.length += 1
        return logits

    def _step(self, tokens: torch.Tensor, place: DevicePlace) -> torch.Tensor:
        return placed_step(self.model, self.cache, tokens, place)


def placed_step(
    model: Any, cache: LayoutCache, tokens: torch.Tensor, place: DevicePlace
) -> torch.Tensor:
    """Logits [B, 1, V] of one more token of each sequence, written at a place on the device."""
    with _placed(cache, place):
        positions = place.position[None].expand(len(tokens), 1)
        logits = model(tokens, past_key_values=cache, use_cache=True, position_ids=positions).logits
    place.advance()
    return logits


@contextmanager
def _placed(cache: LayoutCache, place: DevicePlace) -> Iterator[None]:
    for layer in cache.layers:
        layer.encoded.place = place
    try:
        yield
    finally:
        for layer in cache.layers:
            layer.encoded.place = None


def why_not(model: Any, cache: LayoutCache) -> str | None:
    """The reason why steps through a cache cannot be captured; None where they can."""
    if model.config.get_text_config(decoder=True)._attn_implementation != NAME:
        return f"its attention is not {NAME}; call model.set_attn_implementation(register_decode())"
    for layer in cache.layers:
        if not isinstance(layer, EncodedCacheLayer):
            return "a layer has a sliding window"
        layout = layer.encoding.layout.name
        if layer.reader.decoder == TORCH:
            return "it was asked to decode without kernels"
        if layout not in readers(layout) or not layer.encoding.is_read_as_kept:
            return f"no kernel reads {layout} as it is kept"
        if layer.encoded.capacity is None:
            return "its cache grows; make it with a capacity"
        if not layer.encoded.length:
            return "its cache is empty: read a prompt first"
    if model.device.type != "cuda":
        return "there are no CUDA graphs without a GPU"
    return None
