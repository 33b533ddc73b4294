"""Two stores, or two files, compared: which calls are only in one, which tensors differ and where.

Two captures never share a run's name, so runs are paired in the order in which they began.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from assay.captures import tensor_files
from assay.captures.inspect import in_reading_order, is_file
from assay.captures.inspect.ulps import ulps_apart
from assay.captures.manifest import CaptureRecord
from assay.captures.store import Store
from assay.captures.tensor import FLOATS, Tensor
from assay.errors import BadInput

FIRST, SECOND = "first", "second"
_Place = tuple[int, int, int, str, int, int]  # run, rank, layer, site, step, call


@dataclass(frozen=True, kw_only=True)
class TensorDifference:
    """How one tensor differs. `what` is dtype, shape, bits, statistics, or the one that has it."""

    name: str
    what: str
    first: str
    second: str
    places: int | None = None  # how many numbers differ in their bits,
    of_places: int | None = None  # of how many
    where: tuple[int, ...] | None = None  # the first of them
    max_abs: float | None = None  # over finite numbers
    max_relative: float | None = None  # over the larger of the two sizes
    max_ulps: int | None = None  # so many steps of the dtype, at most


@dataclass(frozen=True, kw_only=True)
class RecordDifference:
    """One call in both, or in one. It is equal where nothing but `beside` differs."""

    name: str
    only_in: str | None = None
    tensors: tuple[TensorDifference, ...] = ()
    facts: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)  # phase, mode, scalars
    beside: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)  # who computed it, where

    @property
    def equal(self) -> bool:
        return not (self.only_in or self.tensors or self.facts)


def differences(first: Path, second: Path, wanted: str | None = None) -> Iterator[RecordDifference]:
    """Every call of either, compared; `wanted` chooses records as Store.find does."""
    if is_file(first) != is_file(second):
        raise BadInput(f"{first} and {second}: give two stores, or two files")
    if is_file(first):
        one, other = tensor_files.read(first), tensor_files.read(second)
        yield RecordDifference(name=first.name, tensors=tuple(compared(one, other)))
        return
    a, b = Store.open(first), Store.open(second)
    in_a, in_b = _named(a, wanted), _named(b, wanted)
    for place, name in _names(dict.fromkeys([*in_a, *in_b])).items():
        if place not in in_a or place not in in_b:
            yield RecordDifference(name=name, only_in=FIRST if place in in_a else SECOND)
        else:
            yield _record(name, (a, in_a[place]), (b, in_b[place]))


def compared(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> list[TensorDifference]:
    """The tensors of either that are not the same bits in both."""
    found = []
    for name in dict.fromkeys([*first, *second]):
        a, b = first.get(name), second.get(name)
        if a is None or b is None:
            whole = (_told(a), _told(b))
            where = FIRST if b is None else SECOND
            found.append(TensorDifference(name=name, what=where, first=whole[0], second=whole[1]))
        elif difference := _tensor(name, a, b):
            found.append(difference)
    return found


def _named(store: Store, wanted: str | None) -> dict[_Place, CaptureRecord]:
    """Records by their keys, in which the run is its place in time."""
    records = store.find(wanted) if wanted else store.manifest().records
    runs = sorted({record.key.run for record in records})
    return {
        (runs.index(key.run), key.rank, key.layer, key.site, key.step, key.call): record
        for record in in_reading_order(records)
        if (key := record.key)
    }


def _names(places: Collection[_Place]) -> dict[_Place, str]:
    """What people call each call: with its site where a layer has several or is not known, with
    its run and rank where there are more than one."""
    several_runs, several_ranks = (len({p[i] for p in places}) > 1 for i in (0, 1))
    sites: dict[int, set[str]] = {}
    for place in places:
        sites.setdefault(place[2], set()).add(place[3])
    found = {}
    for place in places:
        run, rank, layer, site, step, call = place
        where = [f"layer {layer}"] if layer >= 0 else []
        where += [site] if layer < 0 or len(sites[layer]) > 1 else []
        unusual = [f"call {call}"] if call else []
        unusual += [f"rank {rank}"] if several_ranks else []
        unusual += [f"run {run + 1}"] if several_runs else []
        found[place] = ", ".join([f"step {step} {' '.join(where)}", *unusual])
    return found


def _record(
    name: str, one: tuple[Store, CaptureRecord], other: tuple[Store, CaptureRecord]
) -> RecordDifference:
    (store_a, a), (store_b, b) = one, other
    if a.mode == b.mode == "full":
        tensors = compared(store_a.read(a), store_b.read(b))
    else:
        tensors = _of_entries(a, b)
    scalars = [
        (name, a.scalars.get(name), b.scalars.get(name)) for name in {**a.scalars, **b.scalars}
    ]
    facts = [("phase", a.phase, b.phase), ("mode", a.mode, b.mode), *scalars]
    beside = [(n, getattr(a, n), getattr(b, n)) for n in ("implementation", "framework", "device")]
    return RecordDifference(
        name=name, tensors=tuple(tensors), facts=_unlike(facts), beside=_unlike(beside)
    )


def _unlike(pairs: Sequence[tuple[str, Any, Any]]) -> dict[str, tuple[Any, Any]]:
    return {name: (a, b) for name, a, b in pairs if a != b}


def _of_entries(a: CaptureRecord, b: CaptureRecord) -> Iterator[TensorDifference]:
    """What can be told apart without numbers: dtypes, shapes and statistics that both have."""
    for name in dict.fromkeys([*a.tensors, *b.tensors]):
        first, second = a.tensors.get(name), b.tensors.get(name)
        if first is None or second is None:
            what = FIRST if second is None else SECOND
        elif first.dtype != second.dtype:
            what = "dtype"
        elif first.shape != second.shape:
            what = "shape"
        elif first.stats and second.stats and first.stats != second.stats:
            what = "statistics"
        else:
            continue
        yield TensorDifference(name=name, what=what, first=_told(first), second=_told(second))


def _tensor(name: str, a: Tensor, b: Tensor) -> TensorDifference | None:
    told = {"name": name, "first": _told(a), "second": _told(b)}
    if a.dtype != b.dtype:
        return TensorDifference(what="dtype", **told)
    if a.shape != b.shape:
        return TensorDifference(what="shape", **told)
    size = a.bits.dtype.itemsize
    patterns = [np.ascontiguousarray(t.bits).reshape(-1).view(f"u{size}") for t in (a, b)]
    places = np.nonzero(patterns[0] != patterns[1])[0]
    if not places.size:
        return None
    where = np.unravel_index(places[0], a.shape)
    return TensorDifference(
        what="bits",
        **told,
        places=int(places.size),
        of_places=int(a.bits.size),
        where=tuple(int(i) for i in where),
        **_sizes(a, b, places),
    )


def _sizes(a: Tensor, b: Tensor, places: np.ndarray) -> dict[str, Any]:
    """How far the numbers at some places lie apart."""
    x, y = (t.numbers().reshape(-1)[places].astype(np.float64) for t in (a, b))
    finite = np.isfinite(x) & np.isfinite(y)
    if not finite.any():
        return {}
    apart = np.abs(x - y)[finite]
    larger = np.maximum(np.abs(x), np.abs(y))[finite]
    relative = np.divide(apart, larger, out=np.zeros_like(apart), where=larger > 0)
    found = {"max_abs": float(apart.max()), "max_relative": float(relative.max())}
    if a.dtype in FLOATS:
        steps = ulps_apart(a.dtype, *(t.bits.reshape(-1)[places][finite] for t in (a, b)))
        found["max_ulps"] = int(steps.max())
    return found


def _told(tensor: Any) -> str:
    return f"{tensor.dtype} {list(tensor.shape)}" if tensor is not None else "not there"
