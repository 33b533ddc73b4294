"""Delta encoding of caches: a step of decoding adds one position to thousands that stay.

A tensor is stored whole, or as the stretch along its sequence axis that differs, bit for bit, from
the record of the same site before it. At least every 32nd is whole, so no chain is longer.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from assay.captures.manifest import LAYOUTS, Delta, Key
from assay.captures.tensor import Tensor
from assay.errors import BadInput

WHOLE_EVERY = 32
GROWING = ("k", "v", "cache.k", "cache.v")  # tensors that caches are made of
_WORTH = 0.5  # of the whole: a stretch that is longer is not worth a chain
_BLOCK_VALUES = 1 << 22  # compared at a time


@dataclass(frozen=True)
class BaseRecord:
    """Tensors of a record that the next one may be a delta of, in copies of their own."""

    name: str
    tensors: dict[str, Tensor]
    ages: dict[str, int]  # how many records ago each was stored whole

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.tensors.values())


class BaseRecords:
    """The last record of each module, within a number of bytes; the oldest is forgotten first."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._last: OrderedDict[tuple, BaseRecord] = OrderedDict()

    def last(self, key: Key) -> BaseRecord | None:
        return self._last.get(key.module)

    def keep(
        self, key: Key, tensors: Mapping[str, Tensor], deltas: Mapping[str, Delta] | None = None
    ) -> None:
        """Copy the tensors of a record, some of which are stored as `deltas` of the last one."""
        last = self._forget(key.module)
        if sum(tensor.nbytes for tensor in tensors.values()) > self._max_bytes:
            return
        copies = {name: Tensor(t.dtype, t.bits.copy()) for name, t in tensors.items()}
        ages = {name: last.ages.get(name, 0) + 1 for name in deltas or () if last}
        base = BaseRecord(key.name, copies, ages)
        self._last[key.module] = base
        self._bytes += base.nbytes
        while self._bytes > self._max_bytes:
            self._forget(next(iter(self._last)))

    def clear(self) -> None:
        self._last.clear()
        self._bytes = 0

    def _forget(self, module: tuple) -> BaseRecord | None:
        base = self._last.pop(module, None)
        self._bytes -= base.nbytes if base else 0
        return base


def growing(tensors: Mapping[str, Tensor], layouts: Mapping[str, str]) -> dict[str, int]:
    """Return the sequence axis of each tensor that a cache is made of; `layouts` replace ours."""
    axes = {name: (LAYOUTS | {**layouts})[name].index("S") for name in GROWING}
    return {name: axis for name, axis in axes.items() if name in tensors}


def encode(
    last: BaseRecord | None, tensors: Mapping[str, Tensor], axes: Mapping[str, int]
) -> tuple[dict[str, Tensor], dict[str, Delta]]:
    """Return what is stored of `tensors`, and a delta for each of which that is only a stretch."""
    stored, deltas = dict(tensors), {}
    for name, axis in axes.items():
        base = last.tensors.get(name) if last else None
        if base is None or last is None or last.ages.get(name, 0) + 1 >= WHOLE_EVERY:
            continue
        stretch = changed_stretch(base, tensors[name], axis)
        if stretch is not None:
            places = (slice(None),) * axis + (slice(*stretch),)
            stored[name] = Tensor(tensors[name].dtype, tensors[name].bits[places])
            deltas[name] = Delta(base=last.name, axis=axis, start=stretch[0])
    return stored, deltas


def changed_stretch(base: Tensor, new: Tensor, axis: int) -> tuple[int, int] | None:
    """Return first and end of what differs along `axis`; None where `new` must be stored whole."""
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


def decode(base: Tensor, stretch: Tensor, delta: Delta) -> Tensor:
    """Return the whole tensor; BadInput where base and stretch cannot belong together."""
    axis, start = delta.axis, delta.start
    fits = (
        base.dtype == stretch.dtype
        and len(base.shape) == len(stretch.shape) > axis >= 0
        and _without(base, axis) == _without(stretch, axis)
        and 0 <= start <= base.shape[axis]
    )
    if not fits:
        raise BadInput(
            f"a change of {stretch.dtype} {stretch.shape} from {start} along axis {axis} does not "
            f"fit {base.dtype} {base.shape} of {delta.base}"
        )
    size = max(base.shape[axis], start + stretch.shape[axis])
    whole = np.empty((*base.shape[:axis], size, *base.shape[axis + 1 :]), base.bits.dtype)
    target = np.moveaxis(whole, axis, 0)
    target[: base.shape[axis]] = np.moveaxis(base.bits, axis, 0)
    target[start : start + stretch.shape[axis]] = np.moveaxis(stretch.bits, axis, 0)
    return Tensor(base.dtype, whole)


def _equal_from_start(old: np.ndarray, new: np.ndarray, length: int) -> int:
    """Count the places along the first axis that are equal before the first that is not.

    Begins with one place, so two tensors that have nothing in common are told apart at once.
    """
    most = max(1, _BLOCK_VALUES // max(1, old[:1].size))
    start, width = 0, 1
    while start < length:
        stop = min(start + width, length)
        same = (old[start:stop] == new[start:stop]).reshape(stop - start, -1).all(axis=1)
        if not same.all():
            return start + int(np.argmin(same))
        start, width = stop, min(width * 4, most)
    return length


def _sequence_first(tensor: Tensor, axis: int) -> np.ndarray:
    """Return the bits as whole numbers, so that NaN equals itself and -0 is not 0."""
    return np.moveaxis(tensor.bits.view(f"u{tensor.bits.itemsize}"), axis, 0)


def _without(tensor: Tensor, axis: int) -> tuple[int, ...]:
    return tensor.shape[:axis] + tensor.shape[axis + 1 :]
