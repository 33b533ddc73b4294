"""Masks as people get them wrong: which keys a query then sees, [.., M, N], by the mistake."""

from dataclasses import replace
from itertools import product

import numpy as np

from assay.workloads.spec import WorkloadSpec
from assay.workloads.visibility import visibility_mask
from assay.workloads.workload import Workload

TILES = (16, 32, 64, 128)


def misplaced(spec: WorkloadSpec) -> dict[str, np.ndarray]:
    """Causal masks that hide other keys than they should."""
    rows = np.arange(spec.query_length)[:, None]
    columns = np.arange(spec.key_length)
    ahead, offset = columns - rows, spec.key_length - spec.query_length
    everything = ahead <= spec.key_length
    found = {
        "the mask is aligned top-left: query i sees keys up to i, whatever the lengths": ahead <= 0,
        "the causal mask is not applied": everything,
        "the causal mask is not applied where the lengths differ": (
            everything if offset else ahead <= 0
        ),
        "the wrong triangle is masked: a query sees its future, not its past": ahead >= offset,
        "the wrong triangle is masked, its own key too": ahead > offset,
        "a query does not see its own key: the mask is off by one (< for <=)": ahead < offset,
        "a query sees one key of the future: the mask is off by one": ahead <= offset + 1,
    }
    for tile in (1, *TILES):
        end = -(-spec.query_length // tile) * tile
        cause = f"the loop over keys ends with the queries (in tiles of {tile}): Sq < Sk loses keys"
        found[cause] = (ahead <= offset) & (columns < end)
    for tile in TILES:
        padded = -(-spec.key_length // tile) * tile + (-spec.query_length // tile) * tile
        cause = f"the diagonal is placed by lengths padded to a multiple of {tile}"
        found[cause] = ahead <= padded
    for tile_m, tile_n in product(TILES, TILES):
        start = rows // tile_m * tile_m + offset  # where a tile of queries meets the diagonal
        past = columns < -(-start // tile_n) * tile_n
        if tile_m < tile_n:
            cause = (
                f"a tile of keys past the diagonal is not masked ({tile_m} queries x {tile_n} keys)"
            )
            found[cause] = (ahead <= offset) | past
    return {cause: visible[None, None] for cause, visible in found.items()}


def options_misread(w: Workload) -> dict[str, np.ndarray]:
    """Lengths, windows, masks and packed sequences, ignored or read in another way."""
    spec = w.spec
    if not spec.extras:
        return {}
    shape, limits = (spec.query_length, spec.key_length), {"causal": spec.causal}
    names = ", ".join(sorted(spec.extras))
    found = {f"{names} is ignored": visibility_mask(*shape, **limits)[None, None]}
    for name, plainer in _each_left_out(w).items():
        found[f"{name} is ignored"] = plainer.visible
    rows, columns = np.arange(shape[0])[:, None], np.arange(shape[1])
    if spec.window and not spec.packed:
        rest = replace(w, spec=replace(spec, window=0)).visible
        found["the window is aligned top-left: its positions ignore that the lengths differ"] = (
            rest & (np.abs(columns - rows) < spec.window)
        )
        for off in (1, -1):
            other = visibility_mask(*shape, causal=spec.causal, window=max(1, spec.window + off))
            found["the window is off by one" + (" (too wide)" if off > 0 else "")] = rest & other
    if w.mask is not None:
        found["the mask is inverted: True is taken to hide"] = (
            visibility_mask(*shape, **limits)[None, None] & ~w.mask
        )
    if w.lengths is not None:
        found["the length of the longest batch row is used for all rows"] = visibility_mask(
            *shape, **limits
        )[None, None] & (columns < w.lengths.max())
    if w.lengths is not None and spec.causal:
        last = w.lengths[:, None, None, None] - shape[0]
        inside = columns < w.lengths[:, None, None, None]
        found["lengths move the causal diagonal, which is aligned to all keys"] = inside & (
            columns - rows <= last
        )
    return found


def _each_left_out(w: Workload) -> dict[str, Workload]:
    """The workload without one of its options."""
    found = {}
    if len(w.spec.extras) > 1 and w.spec.window:
        found["window"] = replace(w, spec=replace(w.spec, window=0))
    if w.lengths is not None and len(w.spec.extras) > 1:
        found["lengths"] = replace(w, lengths=None)
    if w.cu_seqlens is not None and w.spec.causal:
        found["the causal mask within packed sequences"] = replace(
            w, spec=replace(w.spec, causal=False)
        )
    return found
