"""Caches told by what changed: a step of decoding adds one position to thousands that stay.

A tensor is stored whole, or as the stretch along its sequence axis that differs, bit for bit, from
the record of the same site before it. At least every 32nd is whole, so no chain is longer.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from assay.captures.manifest import Delta, Key
from assay.captures.tensor import Tensor
from assay.errors import BadInput

# The sequence axis of tensors that caches are made of, where whoever captured says no other.
AXES = {"k": 2, "v": 2, "cache.k": 1, "cache.v": 1}
WHOLE_EVERY = 32
_WORTH = 0.5  # of the whole: a stretch that is longer is not worth a chain
_BLOCK_VALUES = 1 << 22  # compared at a time

Place = tuple[str, int, int, str]


@dataclass(frozen=True)
class Remembered:
    """The tensors of one record, and how many records ago each was stored whole."""

    name: str
    tensors: dict[str, Tensor]
    ages: dict[str, int]

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.tensors.values())


class Memory:
    """The last record of each site, as far as a number of bytes goes; the oldest is forgotten."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._last: OrderedDict[Place, Remembered] = OrderedDict()

    def last(self, key: Key) -> Remembered | None:
        return self._last.get(place_of(key))

    def keep(self, key: Key, remembered: Remembered) -> None:
        place = place_of(key)
        self._forget(place)
        if remembered.nbytes > self._max_bytes:
            return
        self._last[place] = remembered
        self._bytes += remembered.nbytes
        while self._bytes > self._max_bytes:
            self._forget(next(iter(self._last)))

    def clear(self) -> None:
        self._last.clear()
        self._bytes = 0

    def _forget(self, place: Place) -> None:
        gone = self._last.pop(place, None)
        self._bytes -= gone.nbytes if gone else 0


def place_of(key: Key) -> Place:
    return key.run, key.rank, key.layer, key.site


def told_from(
    last: Remembered | None, tensors: Mapping[str, Tensor], axes: Mapping[str, int]
) -> tuple[dict[str, Tensor], dict[str, Delta]]:
    """What of `tensors` is to be stored, and from where the stretches among it are told."""
    stored, deltas = dict(tensors), {}
    for name, axis in axes.items():
        base = last.tensors.get(name) if last else None
        if name not in tensors or base is None or last is None:
            continue
        if last.ages.get(name, 0) + 1 >= WHOLE_EVERY:
            continue
        stretch = changed(base, tensors[name], axis)
        if stretch is not None:
            start, end = stretch
            stored[name] = _part(tensors[name], axis, start, end)
            deltas[name] = Delta(base=last.name, axis=axis, start=start)
    return stored, deltas


def remembered(
    name: str,
    tensors: Mapping[str, Tensor],
    axes: Mapping[str, int],
    deltas: Mapping[str, Delta],
    last: Remembered | None,
) -> Remembered:
    """A record to compare the next one with; in copies, for the model's memory is used again."""
    kept = {n: Tensor(t.dtype, t.bits.copy()) for n, t in tensors.items() if n in axes}
    ages = {n: (last.ages.get(n, 0) + 1 if last and n in deltas else 0) for n in kept}
    return Remembered(name, kept, ages)


def changed(base: Tensor, new: Tensor, axis: int) -> tuple[int, int] | None:
    """Where `new` differs from `base` along `axis`; None where it must be stored whole."""
    if base.dtype != new.dtype or len(base.shape) != len(new.shape) or axis >= len(new.shape):
        return None
    before, after = base.shape[axis], new.shape[axis]
    if after < before or not new.nbytes or _without(base, axis) != _without(new, axis):
        return None
    old_bits, new_bits = (_sequence_first(tensor, axis) for tensor in (base, new))
    start = _equal_from_start(old_bits, new_bits, before)
    end = after
    if after == before:
        end -= _equal_from_start(old_bits[start:][::-1], new_bits[start:][::-1], after - start)
    return (start, end) if (end - start) <= _WORTH * after else None


def joined(base: Tensor, change: Tensor, delta: Delta) -> Tensor:
    """The tensor that `change` was told of; BadInput where the two cannot belong together."""
    axis, start = delta.axis, delta.start
    fits = (
        base.dtype == change.dtype
        and len(base.shape) == len(change.shape) > axis >= 0
        and _without(base, axis) == _without(change, axis)
        and 0 <= start <= base.shape[axis]
    )
    if not fits:
        raise BadInput(
            f"a change of {change.dtype} {change.shape} from {start} along axis {axis} does not "
            f"fit {base.dtype} {base.shape} of {delta.base}"
        )
    size = max(base.shape[axis], start + change.shape[axis])
    whole = np.empty((*base.shape[:axis], size, *base.shape[axis + 1 :]), base.bits.dtype)
    target = np.moveaxis(whole, axis, 0)
    target[: base.shape[axis]] = np.moveaxis(base.bits, axis, 0)
    target[start : start + change.shape[axis]] = np.moveaxis(change.bits, axis, 0)
    return Tensor(base.dtype, whole)


def _equal_from_start(one: np.ndarray, other: np.ndarray, length: int) -> int:
    """How many places along the first axis are equal before the first that is not.

    Begins with one place, so two tensors that have nothing in common are told apart at once.
    """
    most = max(1, _BLOCK_VALUES // max(1, one[:1].size))
    start, width = 0, 1
    while start < length:
        stop = min(start + width, length)
        same = (one[start:stop] == other[start:stop]).reshape(stop - start, -1).all(axis=1)
        if not same.all():
            return start + int(np.argmin(same))
        start, width = stop, min(width * 4, most)
    return length


def _sequence_first(tensor: Tensor, axis: int) -> np.ndarray:
    """Its bits as whole numbers, so that NaN equals itself and -0 is not 0."""
    bits = tensor.bits.view(f"u{tensor.bits.itemsize}")
    return np.moveaxis(bits, axis, 0)


def _part(tensor: Tensor, axis: int, start: int, end: int) -> Tensor:
    return Tensor(tensor.dtype, tensor.bits[(slice(None),) * axis + (slice(start, end),)])


def _without(tensor: Tensor, axis: int) -> tuple[int, ...]:
    return tensor.shape[:axis] + tensor.shape[axis + 1 :]
