"""Steps of decoding as replays of one CUDA graph: the device and not Python sets the pace.

A step is captured once, for a cache and the model's weights as they are. It reads where it stands
from numbers on the device, and counts them on, so that every replay decodes the next token.
"""

from typing import Any

import torch

from assay.attention.decoders import OWN, readers
from assay.errors import BadInput
from assay.kv.cache import Cache, DevicePlace, LayerCache

_WARM_UP = 3  # calls before the capture: what is done only once must not be in it


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
    if layer.decoder == OWN:
        return "it was asked to decode without kernels"
    if layout not in readers(layout) or (encoding and not encoding.is_read_as_kept):
        return f"no kernel reads {layout} as it is kept"
    if encoding and not layer.encoded.buffers:
        return "its cache is empty: read a prompt first"
    return None


class GraphedSteps:
    """Logits [B, 1, V] of the token after `tokens` [B, 1], which follow those in the cache."""

    def __init__(self, model: Any, cache: Cache) -> None:
        if reason := why_not(model, cache):
            raise BadInput(f"steps of {type(model).__name__} cannot be replayed: {reason}")
        self.model, self.cache = model, cache
        self.place = DevicePlace.make(cache.batch, model.wte.weight.device)
        self.tokens = torch.zeros(
            cache.batch, 1, dtype=torch.int64, device=self.place.position.device
        )
        self.logits, self.graph = self._captured()

    @torch.no_grad()
    def __call__(self, tokens: torch.Tensor) -> torch.Tensor:
        """The logits are overwritten by the next call."""
        cache = self.cache
        if tokens.shape != self.tokens.shape:
            raise BadInput(
                f"tokens have shape {tuple(tokens.shape)}; wanted {tuple(self.tokens.shape)}, one "
                "new token of each sequence"
            )
        if cache.length >= min(cache.capacity, self.model.config.block_size):
            raise BadInput(
                f"{cache.length} tokens are in the cache, and the model has room for no more; make "
                "it with a larger capacity, or build a longer model"
            )
        self.tokens.copy_(tokens)
        self.place.put(cache.length)  # a prompt may have been read since the last step
        self.graph.replay()
        cache.count(1)
        return self.logits

    @torch.no_grad()
    def _captured(self) -> tuple[torch.Tensor, torch.cuda.CUDAGraph]:
        """Warm up and capture at the place behind what is in the cache, where the first step will
        write its own token over what this leaves."""
        graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        with self.cache.placed(self.place):
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(_WARM_UP):
                    self.place.put(self.cache.length)
                    self.model(self.tokens, cache=self.cache)
            torch.cuda.current_stream().wait_stream(side)
            self.place.put(self.cache.length)
            with torch.cuda.graph(graph):
                logits, _, _ = self.model(self.tokens, cache=self.cache)
        return logits, graph
