"""A cache in memory: one buffer for each stream of each layer, made once and filled in order.

Within one forward pass every layer writes the same new tokens behind those that are there; they
count when the model calls `advance`. A pass that ends in an error leaves the cache as it was.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from assay.errors import BadInput
from assay.kv.contract import State, Stream


@dataclass
class LayerCache:
    """The buffers of one layer. `start` tokens are in them."""

    buffers: dict[str, torch.Tensor]
    states: dict[str, torch.Tensor]
    start: int = 0
    pending: dict[str, torch.Tensor] = field(default_factory=dict)
    # Codecs made ready with the weights of the first call, which all that is kept depends on.
    codecs: Sequence[Any] | None = None

    def append(self, new: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Write the new tokens of each stream given; returns all tokens of it, as views.

        Values are kept, not their graph: gradients do not reach tokens of earlier calls.
        """
        found = {}
        for name, value in new.items():
            buffer, tokens = self.buffers[name], value.shape[-2]
            if value.dtype != buffer.dtype:
                raise BadInput(
                    f"the cache keeps {name} in {buffer.dtype}, the layer gives {value.dtype}; "
                    "make the cache in the dtype that the model computes in"
                )
            buffer.narrow(-2, self.start, tokens).copy_(value.detach())
            found[name] = buffer.narrow(-2, 0, self.start + tokens)
        return found

    def replace_state(self, name: str, value: torch.Tensor) -> None:
        """What the state is when the pass is complete."""
        self.pending[name] = value.detach()


@dataclass
class Cache:
    """The cache of a whole model."""

    layers: Sequence[LayerCache]
    batch: int
    capacity: int
    length: int = 0

    def advance(self, tokens: int) -> None:
        """A pass over `tokens` new tokens is complete."""
        self.length += tokens
        for layer in self.layers:
            layer.start = self.length
            for name, value in layer.pending.items():
                layer.states[name].copy_(value)
            layer.pending.clear()

    def tensors(self) -> Iterator[torch.Tensor]:
        """What is kept: the filled part of every buffer, and the states."""
        for layer in self.layers:
            for buffer in layer.buffers.values():
                yield buffer.narrow(-2, 0, self.length)
            yield from layer.states.values()

    @property
    def nbytes(self) -> int:
        """Bytes of what is kept; the buffers hold room for `capacity` tokens."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors())


def empty(
    layers: Sequence[tuple[Sequence[Stream], Sequence[State]]],
    *,
    batch: int,
    capacity: int,
    device: torch.device | str,
) -> Cache:
    """Room for `capacity` tokens of `batch` sequences."""
    if batch < 1 or capacity < 1:
        raise BadInput(f"a cache for {batch} sequences of {capacity} tokens; give at least 1 of 1")
    return Cache(
        layers=[
            LayerCache(
                buffers={s.name: _buffer(s, batch, capacity, device) for s in streams},
                states={s.name: _zeros((batch, s.width), s.dtype, device) for s in states},
            )
            for streams, states in layers
        ],
        batch=batch,
        capacity=capacity,
    )


def _buffer(stream: Stream, batch: int, capacity: int, device: Any) -> torch.Tensor:
    heads = () if stream.heads is None else (stream.heads,)
    return _zeros((batch, *heads, capacity, stream.width), stream.dtype, device)


def _zeros(shape: tuple[int, ...], dtype: str, device: Any) -> torch.Tensor:
    return torch.zeros(shape, dtype=getattr(torch, dtype), device=device)
