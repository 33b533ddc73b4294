"""Token by token through several caches in turn, so that a slow moment of the machine is shared."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from assay.kv.account import cache_bytes, refuse_windows_alone
from assay.quality.readers import Reader


@dataclass(kw_only=True)
class DecodedCache:
    """A cache with its prompt read, and what became of it."""

    layout: str
    cache: Any
    residual: int
    seconds: list[float]
    formula_bytes: int = 0
    kept_bytes: int = 0
    allocated_bytes: int = 0  # with the room that its buffers have beyond
    way: str = ""  # of the timed steps, in words


@torch.no_grad()
def begin(
    reader: Reader, layout: str, prompt: torch.Tensor, *, steps: int, residual: int
) -> DecodedCache:
    """Read the prompt [1, tokens] into a new cache in a layout, with room for `steps` more."""
    refuse_windows_alone(reader.layers(layout, residual=residual), reader.name)
    cache = reader.new_cache(
        layout, batch=len(prompt), residual=residual, capacity=prompt.shape[1] + steps
    )
    reader.logits(prompt, cache)
    return DecodedCache(layout=layout, cache=cache, residual=residual, seconds=[])


@torch.no_grad()
def interleaved(
    reader: Reader, caches: Mapping[str, DecodedCache], ids: torch.Tensor
) -> Iterator[tuple[str, DecodedCache]]:
    """Read ids [1, tokens] one by one through every cache in turn, the first of them untimed."""
    synchronize = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    steps = {name: reader.steps(decoded.cache) for name, decoded in caches.items()}
    for index in range(ids.shape[1]):
        for name, decoded in caches.items():
            token = ids[:, index : index + 1]
            synchronize()
            begun = time.perf_counter()
            steps[name](token)
            synchronize()
            if index:
                decoded.seconds.append(time.perf_counter() - begun)
    for name, decoded in caches.items():
        layers = reader.layers(decoded.layout, residual=decoded.residual)
        decoded.formula_bytes = cache_bytes(layers, reader.length(decoded.cache)) * len(ids)
        decoded.kept_bytes = decoded.cache.nbytes
        decoded.allocated_bytes = decoded.cache.allocated_bytes
        decoded.way = _in_words(reader.kernels(decoded.cache), steps[name])
        yield name, decoded


def _in_words(kernels: Counter[str], step: Any) -> str:
    """The attention of a cache's steps, and the way that they are launched."""
    names = ", ".join(f"decode/{name}" for name in sorted(kernels))
    own = "read by torch's attention, what is encoded after decoding it whole"
    attention = f"read as kept by {names}" if names else own
    replayed = hasattr(step, "captured")
    return f"{attention}; {'replays of a CUDA graph' if replayed else 'launched from Python'}"
