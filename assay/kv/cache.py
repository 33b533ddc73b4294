"""A cache in memory: one buffer for each stream of each layer, made once and filled in order.

Within one forward pass every layer writes the same new tokens behind those already there; they
count when the model calls `advance`. A pass that ends in an error leaves the cache as it was. Keys
and values that are kept in an encoding in the place of the layer's own layout are in encoded.py.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from assay.errors import BadInput
from assay.kv.contract import State, Stream
from assay.kv.device_place import DevicePlace
from assay.kv.encoded import EncodedLayer, allocated_bytes
from assay.kv.encoding import Encoding


@dataclass
class LayerCache:
    """The buffers of one layer. `start` tokens are in them."""

    buffers: dict[str, torch.Tensor]  # by stream, [batch, (heads,) capacity, width]
    states: dict[str, torch.Tensor]  # by name, [batch, width]
    start: int = 0
    pending: dict[str, torch.Tensor] = field(default_factory=dict)
    # Codecs made ready with the weights of the first call, which all that is kept depends on.
    codecs: Sequence[Any] | None = None
    reads: Counter[str] = field(default_factory=Counter)  # bytes that were given, by stream
    encoded: EncodedLayer | None = None  # keys and values, in the place of the layer's own layout
    decoder: str = "auto"  # the kernel that reads it in a step (attention/decoders.py)
    kernels: Counter[str] = field(default_factory=Counter)  # calls of each that read it
    scratch: Any = None  # memory of decode kernels, which all layers share, one after the other
    ready: Any = None  # maps of the layer, made ready with the weights of the first call
    place: DevicePlace | None = None  # of the whole cache, while a graph is captured

    def append(self, new: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Write the new tokens of some streams; return all tokens of these, as views: of a place
        on the device whole buffers, whose `lengths` say how much of them counts.

        Values are kept, not their graph: gradients do not reach tokens of earlier calls.
        """
        tokens_so_far = {}
        for name, value in new.items():
            buffer, tokens = self.buffers[name], value.shape[-2]
            if value.dtype != buffer.dtype:
                raise BadInput(
                    f"the cache keeps {name} in {buffer.dtype}, the layer gives {value.dtype}; "
                    "make the cache in the dtype that the model computes in"
                )
            if self.place is not None:
                buffer.index_copy_(-2, self.place.position, value.detach())
                tokens_so_far[name] = buffer
                continue
            buffer.narrow(-2, self.start, tokens).copy_(value.detach())
            tokens_so_far[name] = buffer.narrow(-2, 0, self.start + tokens)
            self.reads[name] += tokens_so_far[name].nbytes
        return tokens_so_far

    def replace_state(self, name: str, value: torch.Tensor) -> None:
        """Set the state as it will be when the pass is complete."""
        self.pending[name] = value.detach()


@dataclass
class Cache:
    """The cache of a whole model."""

    layers: Sequence[LayerCache]
    batch: int
    capacity: int
    length: int = 0
    place: DevicePlace | None = None  # set while a step is captured (`placed`)

    @contextmanager
    def placed(self, place: DevicePlace) -> Iterator[None]:
        """Let passes write at a place on the device, and count there; steps of one token only."""
        layers = [*self.layers, *(layer.encoded for layer in self.layers if layer.encoded)]
        for owner in (self, *layers):
            owner.place = place
        try:
            yield
        finally:
            for owner in (self, *layers):
                owner.place = None

    def advance(self, tokens: int) -> None:
        """Count `tokens` new tokens: a pass over them is complete."""
        if self.place is not None:
            self.place.advance()
            return
        for layer in self.layers:
            for name, value in layer.pending.items():
                layer.states[name].copy_(value)
            layer.pending.clear()
            if layer.encoded:
                layer.encoded.commit()
        self._go_behind(self.length + tokens)

    def count(self, tokens: int) -> None:
        """Count tokens that the replay of a graph has written."""
        for layer in self.layers:
            if layer.encoded:
                layer.encoded.length += tokens
        self._go_behind(self.length + tokens)

    def _go_behind(self, length: int) -> None:
        self.length = length
        for layer in self.layers:
            layer.start = length

    def tensors(self) -> Iterator[torch.Tensor]:
        """Tensors that are kept: the filled part of every buffer, and the states."""
        for layer in self.layers:
            for buffer in layer.buffers.values():
                yield buffer.narrow(-2, 0, self.length)
            yield from layer.states.values()
            if layer.encoded:
                yield from layer.encoded.tensors()

    @property
    def nbytes(self) -> int:
        """Bytes of what is kept; buffers have room for more (`allocated_bytes`)."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors())

    @property
    def allocated_bytes(self) -> int:
        """Bytes of the memory that is held for it."""
        encoded = sum(layer.encoded.allocated_bytes for layer in self.layers if layer.encoded)
        own = (t for la in self.layers for t in (*la.buffers.values(), *la.states.values()))
        return encoded + allocated_bytes(own)


def new_cache(
    layers: Sequence[tuple[Sequence[Stream], Sequence[State]]],
    *,
    batch: int,
    capacity: int,
    device: torch.device | str,
    encodings: Sequence[Encoding] | None = None,
    decoder: str = "auto",
    scratch: Any = None,
) -> Cache:
    """An empty cache with room for `capacity` tokens of `batch` sequences.

    `layers` names the streams and the states of each layer, without those of `encodings`, in which
    keys and values are kept where they are given. `decoder` is the kernel that reads it in a step.
    """
    if batch < 1 or capacity < 1:
        raise BadInput(f"a cache for {batch} sequences of {capacity} tokens; give at least 1 of 1")
    return Cache(
        layers=[
            LayerCache(
                buffers={s.name: _buffer(s, batch, capacity, device) for s in streams},
                states={s.name: _zeros((batch, s.width), s.dtype, device) for s in states},
                encoded=EncodedLayer(encoding, capacity=capacity) if encoding else None,
                decoder=decoder,
                scratch=scratch,
            )
            for (streams, states), encoding in zip(
                layers, encodings or [None] * len(layers), strict=True
            )
        ],
        batch=batch,
        capacity=capacity,
    )


def _buffer(stream: Stream, batch: int, capacity: int, device: Any) -> torch.Tensor:
    """[batch, capacity, width], or [batch, heads, capacity, width]."""
    heads = () if stream.heads is None else (stream.heads,)
    return _zeros((batch, *heads, capacity, stream.width), stream.dtype, device)


def _zeros(shape: tuple[int, ...], dtype: str, device: Any) -> torch.Tensor:
    return torch.zeros(shape, dtype=getattr(torch, dtype), device=device)
