"""Parts of a call that still fit each other: some heads, some queries, some rows of the batch.

Works by indexing alone, so arrays of torch, JAX and NumPy are cut where they lie, before any copy.
Letters of a layout: B rows, H query heads, K heads of k and v, Q queries, S keys; others stay.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.captures.recording.options import CaptureOptions

LAYOUTS = {
    "q": "BHQD",
    "k": "BKSD",
    "v": "BKSD",
    "out": "BHQD",
    "mask": "BHQS",
    "x": "BQE",
    "positions": "BQ",
    "cache.idx": "B",
    "cache.k": "BSKD",
    "cache.v": "BSKD",
    "layer_out": "BQE",
}
_OF_THE_CALL = ("q", "k", "v", "out", "mask")


@dataclass(frozen=True, kw_only=True)
class Cut:
    """What is left of a call, what was done to it, and why some tensors are not among it."""

    tensors: dict[str, Any]
    cut: dict[str, str]
    why: dict[str, str]
    alignment: str  # after the cut


def cut(
    tensors: Mapping[str, Any],
    options: CaptureOptions,
    *,
    causal: bool,
    alignment: str = "bottom-right",
    layouts: Mapping[str, str] | None = None,
) -> Cut:
    """Heads, queries and rows that `options` asks for.

    Keys are only left out where causal says that no query that stays sees them: those behind the
    last one. Tensors of a layer (x, caches) belong to all its heads and positions, so they are
    left out where either is cut.
    """
    whole = Cut(tensors=dict(tensors), cut={}, why={}, alignment=alignment)
    if not options.cuts or not tensors:
        return whole
    chosen, told = _chosen(tensors, options, causal=causal, alignment=alignment)
    if not told:
        return whole
    kept, why = {}, {}
    for name, array in tensors.items():
        layout = (layouts or {}).get(name) or _layout(name, len(array.shape))
        reason = _obstacle(name, array.shape, layout, chosen, told)
        if reason:
            why[name] = reason
        else:
            kept[name] = _indexed(array, layout, chosen)
    if causal and "Q" in chosen and chosen["Q"].places[:1] != range(1):
        alignment = "bottom-right"  # the last query that stays stands at the last key that does
    return Cut(tensors=kept, cut=told, why=why, alignment=alignment)


@dataclass(frozen=True)
class _Axis:
    """How long an axis was, and which of its places stay."""

    size: int
    places: Sequence[int]


def _chosen(
    tensors: Mapping[str, Any], options: CaptureOptions, *, causal: bool, alignment: str
) -> tuple[dict[str, _Axis], dict[str, str]]:
    """What stays on each lettered axis, and how the record tells it."""
    found: dict[str, _Axis] = {}
    told: dict[str, str] = {}
    first = next(iter(tensors.values()))
    q, k = tensors.get("q"), tensors.get("k")
    if options.rows is not None and len(first.shape):
        rows = q.shape[0] if q is not None else first.shape[0]
        found["B"] = _Axis(rows, options.rows.below(rows))
        told["rows"] = f"{options.rows} of {rows}"
    if q is None or k is None:
        return found, told
    heads, kv_heads = q.shape[1], k.shape[1]
    if options.heads is not None and heads % kv_heads == 0:
        group = heads // kv_heads
        kv = options.heads.below(kv_heads)
        found["K"] = _Axis(kv_heads, kv)
        found["H"] = _Axis(heads, [h * group + g for h in kv for g in range(group)])
        told["heads"] = f"{options.heads} of {kv_heads}, with {group} of {heads} queries' each"
    if options.positions is not None:
        queries, keys = _positions(q.shape[2], k.shape[2], options.positions, causal, alignment)
        if queries is not None:
            found["Q"], found["S"] = queries, keys
            told["positions"] = f"{_told(queries)}, keys {_told(keys)}"
    return found, told


def _positions(
    queries: int, keys: int, wanted: tuple[int, int], causal: bool, alignment: str
) -> tuple[_Axis, _Axis] | tuple[None, None]:
    """The queries that stay, and the keys up to the one at which the last of them stands."""
    start, end = (min(place, queries) for place in wanted)
    if not causal:
        return _Axis(queries, range(start, end)), _Axis(keys, range(keys))
    offset = keys - queries if alignment == "bottom-right" else 0
    if alignment != "bottom-right" and start and end > keys:
        return None, None  # neither alignment would place the queries that stay
    last = min(max(end + offset, 0), keys)
    return _Axis(queries, range(start, end)), _Axis(keys, range(last))


def _told(axis: _Axis) -> str:
    places = axis.places
    return f"{places[0]}:{places[-1] + 1} of {axis.size}" if places else f"none of {axis.size}"


def _layout(name: str, dimensions: int) -> str:
    """That of the name; a mask of fewer axes has the last ones."""
    known = LAYOUTS.get(name) or LAYOUTS.get(name.split(".")[0], "")
    return known[len(known) - dimensions :] if name == "mask" and dimensions <= 4 else known


def _obstacle(
    name: str, shape: Sequence[int], layout: str, chosen: Mapping[str, _Axis], told: Mapping
) -> str | None:
    """Why a tensor cannot be cut as asked; None where it can."""
    if name not in _OF_THE_CALL and ("heads" in told or "positions" in told):
        return "it belongs to all heads and positions of the layer, of which some were left out"
    if any(not axis.places for axis in chosen.values()):
        return "the cut leaves nothing: " + "; ".join(f"{n} {t}" for n, t in told.items())
    if len(layout) != len(shape):
        return f"its axes {tuple(shape)} are not known, so it could not be cut like the others"
    for letter, size in zip(layout, shape, strict=True):
        if letter not in chosen:
            continue
        axis = chosen[letter]
        if size not in (1, axis.size):
            return f"an axis of {size} does not fit the {axis.size} that the cut is of"
    return None


def _indexed(array: Any, layout: str, chosen: Mapping[str, _Axis]) -> Any:
    for place, letter in enumerate(layout):
        axis = chosen.get(letter)
        # A single place on an axis of several stands for all of them.
        if axis is None or array.shape[place] != axis.size or len(axis.places) == axis.size:
            continue
        array = array[(slice(None),) * place + (_index(axis.places),)]
    return array


def _index(places: Sequence[int]) -> Any:
    """A slice where that says it, which copies nothing."""
    if list(places) == list(range(places[0], places[-1] + 1)):
        return slice(places[0], places[-1] + 1)
    return np.asarray(places)
