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

from assay.errors import BadInput
from assay.integrations.transformers.cache import EncodedCacheLayer, LayoutCache
from assay.integrations.transformers.decoding import NAME
from assay.kv.cache import DevicePlace

_WARM_UP = 3  # calls before the capture: what is done only once must not be in it


class ReplayedSteps:
    """Logits of the token after those in the cache and `tokens`; the next call writes over them."""

    def __init__(self, model: Any, cache: LayoutCache) -> None:
        if reason := why_not(model, cache):
            raise BadInput(f"steps of {type(model).__name__} cannot be replayed: {reason}")
        self.model, self.cache = model, cache
        self.layers = [layer.encoded for layer in cache.layers]
        batch, device = self.layers[0].tail["v"].shape[0], model.device
        self.place = DevicePlace.make(batch, device)
        self.tokens = torch.zeros(batch, 1, dtype=torch.int64, device=device)
        self.logits, self.graph = self._captured()

    @torch.no_grad()
    def __call__(self, tokens: torch.Tensor) -> torch.Tensor:
        length, capacity = self.layers[0].length, self.layers[0].capacity
        if tokens.shape != self.tokens.shape:
            raise BadInput(
                f"tokens have shape {tuple(tokens.shape)}; wanted {tuple(self.tokens.shape)}, one "
                "new token of each sequence"
            )
        if length >= capacity:
            raise BadInput(f"the cache has room for {capacity} tokens and is full; give more room")
        self.tokens.copy_(tokens)
        self.place.put(length)
        self.graph.replay()
        for encoded in self.layers:
            encoded.length += 1
        return self.logits

    @torch.no_grad()
    def _captured(self) -> tuple[torch.Tensor, torch.cuda.CUDAGraph]:
        graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_WARM_UP):
                self.place.put(self.layers[0].length)
                placed_step(self.model, self.cache, self.tokens, self.place)
        torch.cuda.current_stream().wait_stream(side)
        self.place.put(self.layers[0].length)
        with torch.cuda.graph(graph):
            logits = placed_step(self.model, self.cache, self.tokens, self.place)
        return logits, graph


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
    if model.device.type != "cuda":
        return "there are no CUDA graphs without a GPU"
    if model.config.get_text_config(decoder=True)._attn_implementation != NAME:
        return f"its attention is not {NAME}; call model.set_attn_implementation(register_decode())"
    for layer in cache.layers:
        if not isinstance(layer, EncodedCacheLayer):
            return "a layer has a sliding window"
        if not layer.encoding.is_read_as_kept:
            return f"no kernel reads {layer.encoding.layout.name} as it is kept"
        if layer.encoded.capacity is None:
            return "its cache grows; make it with a capacity"
        if not layer.encoded.length:
            return "its cache is empty: read a prompt first"
    return None
