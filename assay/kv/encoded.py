"""Keys and values of one layer in an encoding: tokens are encoded once, and decoded when read.

`update` takes the new tokens, encodes what is old enough, keeps the rest whole, and gives back all
tokens as attention reads them: decoded, the new ones too. Tokens count when `commit` is called, so
that a pass that ends in an error leaves the layer as it was. Every byte that is decoded is counted:
a quality figure can be held against what its cache was really asked for.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict

import torch

from assay.errors import BadInput
from assay.kv.contract import KVSpec, Stream
from assay.kv.device_place import DevicePlace
from assay.kv.encoding import Encoding

WHOLE = "whole"  # by which tokens that are not encoded are counted
_GROWTH = 1.5


def allocated_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Return the bytes of the memory behind tensors, of what several share once."""
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    return sum(storages.values())


class EncodedLayer:
    """Batches of one size. Buffers are made with the first tokens and grow as tokens come, unless
    `capacity` says for how many they are made."""

    def __init__(self, encoding: Encoding, *, capacity: int | None = None) -> None:
        self.length = 0
        self.encoding = encoding
        self.capacity = capacity
        self.spec: KVSpec | None = None  # of the first tokens
        self.buffers: dict[str, torch.Tensor] = {}  # [batch, heads, rows, width]
        self.tail: dict[str, torch.Tensor] = {}  # newest tokens, whole
        self.reads: Counter[str] = Counter()  # bytes, by stream
        self.place: DevicePlace | None = None  # while a graph is captured
        self._pending: tuple[int, dict[str, torch.Tensor]] | None = None
        self._listed: tuple[Stream, ...] | None = None  # streams of the layout, for `spec`

    @property
    def encoding(self) -> Encoding:
        return self._encoding

    @encoding.setter
    def encoding(self, encoding: Encoding) -> None:
        if self.length:
            raise BadInput(
                f"{self.length} tokens were written in {self._encoding.layout.name}; with another "
                "encoding, or scales that moved, they would be read as other numbers: make a cache"
            )
        self._encoding = encoding

    def update(self, values: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return k, v (and q) of all tokens, [batch, heads, tokens, width], in the dtype in which
        those of the new ones are given. Values are kept, not their graph."""
        self.write(values)
        return self.read()

    def write(self, values: Mapping[str, torch.Tensor]) -> None:
        """Encode and keep what is old enough of the new tokens and those before."""
        values = {name: value.detach() for name, value in values.items()}
        self._accept(values)
        length = self.length + next(iter(values.values())).shape[-2]
        before, after = self.encoding.sealed(self.length), self.encoding.sealed(length)
        old, tail = self._split(values, after - before)
        if after > before:
            self._write_rows(self.encoding.encode(old, before), before, after)
        if self.place is None:
            self._pending = length, tail

    def streams(self) -> dict[str, torch.Tensor]:
        """Return the streams of all tokens, those that were just written too, as views: for a
        kernel that reads them as they are kept, where the encoding `is_read_as_kept`. At a place on
        the device they are whole buffers, whose lengths say how much of them counts."""
        length, _ = self._pending or (self.length, self.tail)
        return dict(self.buffers) if self.place is not None else self.stored(length)

    def count_reading(self, stored: Mapping[str, torch.Tensor]) -> None:
        """Count the bytes of streams that were read."""
        self.reads.update({name: kept.nbytes for name, kept in stored.items()})

    def read(self) -> dict[str, torch.Tensor]:
        """Return k, v (and q) of all tokens, those that were just written too, decoded."""
        length, tail = self._pending or (self.length, self.tail)
        return self._read(self.encoding.sealed(length), tail)

    def commit(self) -> None:
        """Count the tokens of the last update."""
        if self._pending:
            (self.length, self.tail), self._pending = self._pending, None

    @property
    def nbytes(self) -> int:
        """Bytes of what is kept; buffers have room for more (`allocated_bytes`)."""
        return sum(tensor.nbytes for tensor in self.tensors())

    @property
    def allocated_bytes(self) -> int:
        """Bytes of the memory that is held for it."""
        return allocated_bytes((*self.buffers.values(), *self.tail.values()))

    def tensors(self) -> Iterator[torch.Tensor]:
        """Tensors that are kept: the filled part of every buffer, and the whole tokens."""
        sealed = self.encoding.sealed(self.length)
        yield from self.stored(sealed).values() if sealed else ()
        yield from self.tail.values() if self.length > sealed else ()

    def stored(self, sealed: int) -> dict[str, torch.Tensor]:
        """Streams of the first `sealed` tokens, as views."""
        return {
            stream.name: self.buffers[stream.name].narrow(-2, 0, sealed // stream.block)
            for stream in self._streams()
        }

    def select(self, choose: Callable[[torch.Tensor], torch.Tensor]) -> None:
        """Put what `choose` makes of a tensor [batch, ...] in its place, for every tensor."""
        self.buffers = {name: choose(buffer) for name, buffer in self.buffers.items()}
        self.tail = {name: choose(value) for name, value in self.tail.items()}

    def crop(self, length: int) -> None:
        """Forget the tokens from `length` on."""
        sealed = self.encoding.sealed(self.length)
        if length < sealed and not self.encoding.is_by_token:
            raise BadInput(
                f"{sealed} tokens are encoded, in whole blocks or behind a window, so the cache "
                f"cannot be cut to {length}; choose a layout of single tokens, without a window"
            )
        self.tail = {n: v[..., : max(0, length - sealed), :] for n, v in self.tail.items()}
        self.length = min(self.length, length)

    def _accept(self, values: Mapping[str, torch.Tensor]) -> None:
        """Refuse tokens of another kind than the first, whose kind is that of the layer."""
        heads = {name: value.shape[1] for name, value in values.items()}
        first = values["v"]
        spec = KVSpec(
            dtype=str(first.dtype).removeprefix("torch."),
            head_dim=first.shape[-1],
            key_heads=heads.get("k", 0),
            query_heads=heads.get("q", 0),
            value_heads=heads["v"],
        )
        if self.spec is None:
            self.spec = spec
            self.tail = {name: value[..., :0, :].clone() for name, value in values.items()}
        given = {"sequences": first.shape[0], **asdict(spec)}
        begun = {"sequences": self.tail["v"].shape[0], **asdict(self.spec)}
        other = [f"{name} {begun[name]}, given {given[name]}" for name in given
                 if given[name] != begun[name]]  # fmt: skip
        if len(widths := {value.shape[-1] for value in values.values()}) > 1:
            other.append(f"one width of keys and values, given {sorted(widths)}")
        if other:
            raise BadInput(
                f"the cache was begun with {'; '.join(other)}: make a cache for these tokens"
            )

    def _split(
        self, values: Mapping[str, torch.Tensor], count: int
    ) -> tuple[Mapping[str, torch.Tensor], dict[str, torch.Tensor]]:
        """The oldest `count` tokens that are not encoded yet, and those that stay whole."""
        if self.encoding.is_by_token:
            return values, self.tail
        recent = {name: torch.cat([self.tail[name], new], dim=-2) for name, new in values.items()}
        old = {name: value[..., :count, :] for name, value in recent.items()}
        return old, {name: value[..., count:, :].clone() for name, value in recent.items()}

    def _streams(self) -> tuple[Stream, ...]:
        if self._listed is None and self.spec:
            self._listed = self.encoding.layout.streams(self.spec)
        return self._listed or ()

    def _write_rows(self, encoded: Mapping[str, torch.Tensor], before: int, after: int) -> None:
        """Write the rows of the tokens from `before` to `after`."""
        self._refuse_rows(encoded, after - before)
        for stream in self._streams():
            rows = encoded[stream.name]
            if self.place is not None:
                buffer = self._room(stream, rows, self.capacity or after)
                written = buffer.view(torch.uint8)
                written.index_copy_(-2, self.place.position, rows.view(torch.uint8))
                continue
            buffer = self._room(stream, rows, after)
            buffer.narrow(-2, before // stream.block, rows.shape[-2]).copy_(rows)

    def _refuse_rows(self, encoded: Mapping[str, torch.Tensor], tokens: int) -> None:
        """Refuse what a layout encodes otherwise than its streams say."""
        wanted = {
            stream.name: (stream.dtype, tokens // stream.block, stream.width)
            for stream in self._streams()
        }
        given = {
            name: (str(rows.dtype).removeprefix("torch."), *rows.shape[-2:])
            for name, rows in encoded.items()
        }
        if given != wanted:
            raise BadInput(
                f"layout {self.encoding.layout.name} encodes {given}, and its streams are {wanted} "
                "(dtype, rows, width): correct one of the two"
            )

    def _room(self, stream: Stream, rows: torch.Tensor, tokens: int) -> torch.Tensor:
        """The stream's buffer with room for so many tokens."""
        buffer, wanted = self.buffers.get(stream.name), tokens // stream.block
        if buffer is not None and buffer.shape[-2] >= wanted:
            return buffer
        ahead = self.capacity // stream.block if self.capacity else 0
        if buffer is not None:
            ahead = max(ahead, int(_GROWTH * buffer.shape[-2]))
        grown = torch.empty(
            (*rows.shape[:-2], max(wanted, ahead), stream.width),
            dtype=getattr(torch, stream.dtype),
            device=rows.device,
        )
        if buffer is not None:
            grown.narrow(-2, 0, buffer.shape[-2]).copy_(buffer)
        self.buffers[stream.name] = grown
        return grown

    def _read(self, sealed: int, tail: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        if not sealed:
            self.reads[WHOLE] += sum(value.nbytes for value in tail.values())
            return dict(tail)
        stored = self.stored(sealed)
        self.count_reading(stored)
        decoded = self.encoding.decode(stored)
        values = {}
        for name, newest in tail.items():
            self.reads[WHOLE] += newest.nbytes
            value = decoded[name].to(newest.dtype)
            values[name] = torch.cat([value, newest], dim=-2) if newest.shape[-2] else value
        return values
