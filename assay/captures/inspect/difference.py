"""Differences between two stores, or two files: calls only in one, tensors that differ and where.

Two captures never share a run's name, so runs are paired in the order in which they began.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from assay.captures import tensor_files
from assay.captures.inspect.inspection import in_reading_order, is_file
from assay.captures.manifest import CaptureRecord, TensorEntry
from assay.captures.store import Store
from assay.captures.tensor import FLOATS, STORED_AS, Tensor
from assay.errors import BadInput

FIRST, SECOND = "first", "second"
_Place = tuple[int, int, int, str, int, int]  # run, rank, layer, site, step, call


@dataclass(frozen=True, kw_only=True)
class TensorDifference:
    """Difference of one tensor. `what` is dtype, shape, bits or statistics, or names the side
    that alone has it."""

    name: str
    what: str
    first: str
    second: str
    places: int | None = None  # how many numbers differ in their bits,
    of_places: int | None = None  # of how many
    where: tuple[int, ...] | None = None  # index of the first of them
    max_abs: float | None = None  # over finite numbers
    max_relative: float | None = None  # relative to the larger size of the two
    max_ulps: int | None = None  # steps of the dtype


@dataclass(frozen=True, kw_only=True)
class CallDifference:
    """One call in both, or in one. It is equal where nothing but `beside` differs."""

    name: str
    only_in: str | None = None
    tensors: tuple[TensorDifference, ...] = ()
    facts: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)  # phase, mode, scalars
    beside: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)  # implementation, device

    @property
    def equal(self) -> bool:
        return not (self.only_in or self.tensors or self.facts)


def differences(first: Path, second: Path, records: str | None = None) -> Iterator[CallDifference]:
    """Compare every call of either; `records` selects some as Store.find does."""
    if is_file(first) != is_file(second):
        raise BadInput(f"{first} and {second}: give two stores, or two files")
    if is_file(first):
        tensors = compare_tensors(tensor_files.read(first), tensor_files.read(second))
        yield CallDifference(name=first.name, tensors=tensors)
        return
    store_a, store_b = Store.open(first), Store.open(second)
    in_a, in_b = _by_place(store_a, records), _by_place(store_b, records)
    for place, name in _names(dict.fromkeys([*in_a, *in_b])).items():
        if place not in in_a or place not in in_b:
            yield CallDifference(name=name, only_in=FIRST if place in in_a else SECOND)
        else:
            yield _compare_calls(name, (store_a, in_a[place]), (store_b, in_b[place]))


def compare_tensors(
    first: Mapping[str, Tensor], second: Mapping[str, Tensor]
) -> tuple[TensorDifference, ...]:
    """Differences of the tensors of either that are not the same bits in both."""
    return _compare(first, second, _bits_differ)


def ulps_apart(dtype: str, first: np.ndarray, second: np.ndarray) -> np.ndarray:  # of uint64
    """Count the floats of `dtype` between two finite ones, given as `Tensor.bits`.

    The patterns of floats of one sign are ordered as the numbers are, so those below zero are
    mirrored and the difference is a count (Dawson, Comparing Floating Point Numbers, 2012).
    """
    width = np.dtype(STORED_AS[dtype]).itemsize * 8
    sign = np.uint64(1 << (width - 1))
    ordered = []
    for bits in (first, second):
        patterns = np.ascontiguousarray(bits).view(f"u{width // 8}").astype(np.uint64)
        size = patterns & (sign - np.uint64(1))
        ordered.append(np.where(patterns & sign, sign - size, sign + size))
    return np.maximum(*ordered) - np.minimum(*ordered)


def _by_place(store: Store, selection: str | None) -> dict[_Place, CaptureRecord]:
    """Records by their keys, in which the run is replaced by its place in time."""
    records = store.find(selection) if selection else store.manifest().records
    runs = sorted({record.key.run for record in records})
    return {
        (runs.index(key.run), key.rank, key.layer, key.site, key.step, key.call): record
        for record in in_reading_order(records)
        if (key := record.key)
    }


def _names(places: Collection[_Place]) -> dict[_Place, str]:
    """A name for each call: with its site where a layer has several or is unknown, with its run
    and rank where there are more than one."""
    several_runs, several_ranks = (len({p[i] for p in places}) > 1 for i in (0, 1))
    sites: dict[int, set[str]] = {}
    for _, _, layer, site, _, _ in places:
        sites.setdefault(layer, set()).add(site)
    names = {}
    for place in places:
        run, rank, layer, site, step, call = place
        where = [f"layer {layer}"] if layer >= 0 else []
        where += [site] if layer < 0 or len(sites[layer]) > 1 else []
        rest = [f"call {call}"] if call else []
        rest += [f"rank {rank}"] if several_ranks else []
        rest += [f"run {run + 1}"] if several_runs else []
        names[place] = ", ".join([f"step {step} {' '.join(where)}", *rest])
    return names


def _compare_calls(
    name: str, first: tuple[Store, CaptureRecord], second: tuple[Store, CaptureRecord]
) -> CallDifference:
    (store_a, a), (store_b, b) = first, second
    if a.mode == b.mode == "full":
        tensors = compare_tensors(store_a.read(a), store_b.read(b))
    else:
        tensors = _compare(a.tensors, b.tensors, _statistics_differ)
    scalars = [(n, a.scalars.get(n), b.scalars.get(n)) for n in {**a.scalars, **b.scalars}]
    facts = [("phase", a.phase, b.phase), ("mode", a.mode, b.mode), *scalars]
    beside = [(n, getattr(a, n), getattr(b, n)) for n in ("implementation", "framework", "device")]
    return CallDifference(
        name=name, tensors=tensors, facts=_unequal(facts), beside=_unequal(beside)
    )


def _unequal(pairs: Sequence[tuple[str, Any, Any]]) -> dict[str, tuple[Any, Any]]:
    return {name: (a, b) for name, a, b in pairs if a != b}


def _compare(
    first: Mapping[str, Any],
    second: Mapping[str, Any],
    differ: Callable[[Any, Any], dict[str, Any] | None],
) -> tuple[TensorDifference, ...]:
    """Differences of tensors, or of entries of a manifest; `differ` compares two of one shape."""
    compared = []
    for name in dict.fromkeys([*first, *second]):
        a, b = first.get(name), second.get(name)
        if a is None or b is None:
            difference = {"what": FIRST if b is None else SECOND}
        elif a.dtype != b.dtype:
            difference = {"what": "dtype"}
        elif a.shape != b.shape:
            difference = {"what": "shape"}
        else:
            difference = differ(a, b)
        if difference:
            whole = {"first": _described(a), "second": _described(b)}
            compared.append(TensorDifference(name=name, **whole, **difference))
    return tuple(compared)


def _described(tensor: Tensor | TensorEntry | None) -> str:
    return f"{tensor.dtype} {list(tensor.shape)}" if tensor is not None else "absent"


def _statistics_differ(a: TensorEntry, b: TensorEntry) -> dict[str, Any] | None:
    return {"what": "statistics"} if a.stats and b.stats and a.stats != b.stats else None


def _bits_differ(a: Tensor, b: Tensor) -> dict[str, Any] | None:
    size = a.bits.dtype.itemsize
    patterns = [np.ascontiguousarray(t.bits).reshape(-1).view(f"u{size}") for t in (a, b)]
    places = np.nonzero(patterns[0] != patterns[1])[0]
    if not places.size:
        return None
    return {
        "what": "bits",
        "places": int(places.size),
        "of_places": int(a.bits.size),
        "where": tuple(int(i) for i in np.unravel_index(places[0], a.shape)),
        **_distances(a, b, places),
    }


def _distances(a: Tensor, b: Tensor, places: np.ndarray) -> dict[str, Any]:
    """Largest distances between the finite numbers at some places of the flat tensors."""
    x, y = (t.numbers().reshape(-1)[places].astype(np.float64) for t in (a, b))
    finite = np.isfinite(x) & np.isfinite(y)
    if not finite.any():
        return {}
    apart = np.abs(x - y)[finite]
    larger = np.maximum(np.abs(x), np.abs(y))[finite]
    relative = np.divide(apart, larger, out=np.zeros_like(apart), where=larger > 0)
    distances = {"max_abs": float(apart.max()), "max_relative": float(relative.max())}
    if a.dtype in FLOATS:
        steps = ulps_apart(a.dtype, *(t.bits.reshape(-1)[places][finite] for t in (a, b)))
        distances["max_ulps"] = int(steps.max())
    return distances
