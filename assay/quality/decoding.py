"""Token by token through several caches in turn, so that a slow moment of the machine is shared."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from assay.kv.account import cache_bytes
from assay.quality.readers import Reader


@dataclass(kw_only=True)
class DecodedCache:
    """A cache with its prompt read, and what became of it."""

    name: str
    cache: Any
    residual: int
    seconds: list[float]
    formula_bytes: int = 0
    kept_bytes: int = 0


@torch.no_grad()
def begin(reader: Reader, name: str, prompt: torch.Tensor, *, residual: int) -> DecodedCache:
    """Read the prompt [1, tokens] into a new cache in the layout `name`."""
    cache = reader.new_cache(name, batch=len(prompt), residual=residual)
    reader.logits(prompt, cache)
    return DecodedCache(name=name, cache=cache, residual=residual, seconds=[])


@torch.no_grad()
def interleaved(
    reader: Reader, caches: Mapping[str, DecodedCache], ids: torch.Tensor
) -> Iterator[DecodedCache]:
    """Read ids [1, tokens] one by one through every cache in turn, the first of them untimed."""
    synchronize = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    for index in range(ids.shape[1]):
        for decoded in caches.values():
            synchronize()
            begun = time.perf_counter()
            reader.logits(ids[:, index : index + 1], decoded.cache)
            synchronize()
            if index:
                decoded.seconds.append(time.perf_counter() - begun)
    for decoded in caches.values():
        layers = reader.layers(decoded.name, residual=decoded.residual)
        decoded.formula_bytes = cache_bytes(layers, reader.length(decoded.cache)) * len(ids)
        decoded.kept_bytes = decoded.cache.nbytes
        yield decoded
