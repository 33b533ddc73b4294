"""Parts of a call that still fit each other: some heads, some queries, some rows of the batch.

Works by indexing alone, so arrays of torch, JAX and NumPy are cut where they lie, before any copy.
Axes are named by the letters of manifest.LAYOUTS; those without a choice stay whole.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.captures.manifest import LAYOUTS
from assay.captures.recording.options import CaptureOptions

OF_WHOLE_LAYER = "it belongs to all heads and positions of the layer, of which some were left out"
_OF_THE_CALL = ("q", "k", "v", "out", "mask")


@dataclass(frozen=True, kw_only=True)
class CutCall:
    """Tensors that are left of a call, what was cut, and why other tensors are not among them."""

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
) -> CutCall:
    """Return the heads, queries and rows that `options` asks for.

    Keys are only left out where causal says that no query that stays sees them: those behind the
    last one. Tensors of a layer (x, caches) belong to all its heads and positions, so they are
    left out where either is cut.
    """
    whole = CutCall(tensors=dict(tensors), cut={}, why={}, alignment=alignment)
    if not options.cuts or not tensors:
        return whole
    axes, cuts = _chosen(tensors, options, causal=causal, alignment=alignment)
    if not cuts:
        return whole
    kept, why = {}, {}
    for name, array in tensors.items():
        layout = (layouts or {}).get(name) or _layout(name, len(array.shape))
        obstacle = _obstacle(name, array.shape, layout, axes, cuts)
        if obstacle:
            why[name] = obstacle
        else:
            kept[name] = _indexed(array, layout, axes)
    if causal and "Q" in axes and axes["Q"].places[:1] != range(1):
        alignment = "bottom-right"  # the last query that stays stands at the last key that does
    return CutCall(tensors=kept, cut=cuts, why=why, alignment=alignment)


@dataclass(frozen=True)
class _Axis:
    """Length of an axis, and which of its places stay."""

    size: int
    places: Sequence[int]

    def __str__(self) -> str:
        if not self.places:
            return f"none of {self.size}"
        return f"{self.places[0]}:{self.places[-1] + 1} of {self.size}"


def _chosen(
    tensors: Mapping[str, Any], options: CaptureOptions, *, causal: bool, alignment: str
) -> tuple[dict[str, _Axis], dict[str, str]]:
    """Return what stays on each lettered axis, and the words for it in the record."""
    axes: dict[str, _Axis] = {}
    cuts: dict[str, str] = {}
    first = next(iter(tensors.values()))
    q, k = tensors.get("q"), tensors.get("k")
    if options.rows is not None and len(first.shape):
        rows = q.shape[0] if q is not None else first.shape[0]
        axes["B"] = _Axis(rows, options.rows.below(rows))
        cuts["rows"] = f"{options.rows} of {rows}"
    if q is None or k is None:
        return axes, cuts
    heads, kv_heads = q.shape[1], k.shape[1]
    if options.heads is not None and heads % kv_heads == 0:
        group = heads // kv_heads
        kv = options.heads.below(kv_heads)
        axes["K"] = _Axis(kv_heads, kv)
        axes["H"] = _Axis(heads, [h * group + g for h in kv for g in range(group)])
        cuts["heads"] = f"{options.heads} of {kv_heads}, with {group} of {heads} queries' each"
    if options.positions is not None:
        positions = _positions(q.shape[2], k.shape[2], options.positions, causal, alignment)
        if positions is not None:
            axes["Q"], axes["S"] = positions
            cuts["positions"] = f"{axes['Q']}, keys {axes['S']}"
    return axes, cuts


def _positions(
    queries: int, keys: int, wanted: tuple[int, int], causal: bool, alignment: str
) -> tuple[_Axis, _Axis] | None:
    """Return the queries that stay, and the keys up to the one at which the last of them stands;
    None where neither alignment would place those queries."""
    start, end = (min(place, queries) for place in wanted)
    if not causal:
        return _Axis(queries, range(start, end)), _Axis(keys, range(keys))
    offset = keys - queries if alignment == "bottom-right" else 0
    if alignment != "bottom-right" and start and end > keys:
        return None
    last = min(max(end + offset, 0), keys)
    return _Axis(queries, range(start, end)), _Axis(keys, range(last))


def _layout(name: str, dimensions: int) -> str:
    """Return the layout of a name; a mask of fewer axes has the last ones."""
    layout = LAYOUTS.get(name) or LAYOUTS.get(name.split(".")[0], "")
    return layout[len(layout) - dimensions :] if name == "mask" and dimensions <= 4 else layout


def _obstacle(
    name: str, shape: Sequence[int], layout: str, axes: Mapping[str, _Axis], cuts: Mapping
) -> str | None:
    """Say why a tensor cannot be cut as asked; None where it can."""
    if name not in _OF_THE_CALL and ("heads" in cuts or "positions" in cuts):
        return OF_WHOLE_LAYER
    if any(not axis.places for axis in axes.values()):
        return "the cut leaves nothing: " + "; ".join(f"{n} {text}" for n, text in cuts.items())
    if len(layout) != len(shape):
        return f"its axes {tuple(shape)} are not known, so it could not be cut like the others"
    for letter, size in zip(layout, shape, strict=True):
        if letter in axes and size not in (1, axes[letter].size):
            return f"an axis of {size} does not fit the {axes[letter].size} that the cut is of"
    return None


def _indexed(array: Any, layout: str, axes: Mapping[str, _Axis]) -> Any:
    for place, letter in enumerate(layout):
        axis = axes.get(letter)
        # A single place on an axis of several stands for all of them.
        if axis is None or array.shape[place] != axis.size or len(axis.places) == axis.size:
            continue
        array = array[(slice(None),) * place + (_index(axis.places),)]
    return array


def _index(places: Sequence[int]) -> Any:
    """Return a slice where the places are neighbours, which copies nothing."""
    if list(places) == list(range(places[0], places[-1] + 1)):
        return slice(places[0], places[-1] + 1)
    return np.asarray(places)
