"""Masks with a known bug: the keys that a query then sees, bool [.., M, N], by the bug in words."""

from dataclasses import replace
from itertools import product

import numpy as np

from assay.workloads.spec import WorkloadSpec
from assay.workloads.visibility import visibility_mask
from assay.workloads.workload import Workload

TILES = (16, 32, 64, 128)


def misplaced(spec: WorkloadSpec) -> dict[str, np.ndarray]:
    """Return causal masks that hide other keys than they should, [1, 1, M, N]."""
    rows = np.arange(spec.query_length)[:, None]
    columns = np.arange(spec.key_length)
    ahead, offset = columns - rows, spec.key_length - spec.query_length
    everything = ahead <= spec.key_length
    masks = {
        "the causal mask is aligned top-left: query i sees keys 0 to i even where Sq != Sk": (
            ahead <= 0
        ),
        "the causal mask is not applied": everything,
        "the causal mask is not applied where Sq != Sk": everything if offset else ahead <= 0,
        "the wrong triangle is masked: a query sees its future, not its past": ahead >= offset,
        "the wrong triangle is masked, and the diagonal too": ahead > offset,
        "a query does not see its own key: the mask is off by one (< instead of <=)": (
            ahead < offset
        ),
        "a query sees one future key: the mask is off by one": ahead <= offset + 1,
        "the diagonal is shifted by Sq - Sk, wanted Sk - Sq: the sign of the offset is wrong": (
            ahead <= -offset
        ),
        "the diagonal is shifted by Sq - Sk where Sq < Sk, wanted Sk - Sq: the sign of the offset "
        "is wrong": (ahead <= -max(offset, 0)),
    }
    for tile in TILES[:-1]:  # of 128 no case has a second tile of queries and still more keys
        bug = (
            f"a tile of {tile} queries stops at the key of its own last row, as if there were no "
            "more keys than queries: keys are lost where Sq < Sk"
        )
        masks[bug] = (ahead <= offset) & (columns < (rows // tile + 1) * tile)
    for tile in TILES:
        padded = -(-spec.key_length // tile) * tile + (-spec.query_length // tile) * tile
        bug = f"the diagonal is computed from lengths padded to a multiple of {tile}"
        masks[bug] = ahead <= padded
    for tile_m, tile_n in product(TILES, TILES):
        if tile_m < tile_n:
            start = rows // tile_m * tile_m + offset  # where a tile of queries meets the diagonal
            past = columns < -(-start // tile_n) * tile_n
            bug = f"a tile past the diagonal is not masked ({tile_m} queries x {tile_n} keys)"
            masks[bug] = (ahead <= offset) | past
    return {bug: mask[None, None] for bug, mask in masks.items()}


def bounded_by_queries(w: Workload) -> dict[str, np.ndarray]:
    """Return masks of loops over keys that end at the number of queries, exactly or in tiles."""
    masks = {}
    for tile in (1, *TILES):
        end = -(-w.spec.query_length // tile) * tile
        words = f" (in tiles of {tile})" if tile > 1 else ""
        bug = f"keys are bounded by Sq instead of Sk{words}: the loop over them ends too early"
        masks[bug] = w.visible & (np.arange(w.spec.key_length) < end)
    return masks


def options_misread(w: Workload) -> dict[str, np.ndarray]:
    """Return masks of lengths, windows, masks and packed sequences that are ignored or misread."""
    spec = w.spec
    if not spec.extras:
        return {}
    shape = (spec.query_length, spec.key_length)
    plain = visibility_mask(*shape, causal=spec.causal)[None, None]
    masks = {f"{', '.join(sorted(spec.extras))} is ignored": plain}
    masks |= {f"{name} is ignored": other.visible for name, other in _each_left_out(w).items()}
    rows, columns = np.arange(shape[0])[:, None], np.arange(shape[1])
    if spec.window and not spec.packed:
        rest = replace(w, spec=replace(spec, window=0)).visible
        bug = "the window is aligned top-left: positions do not take Sk - Sq into account"
        masks[bug] = rest & (np.abs(columns - rows) < spec.window)
        for difference, word in ((1, "wide"), (-1, "narrow")):
            window = max(1, spec.window + difference)
            other = visibility_mask(*shape, causal=spec.causal, window=window)
            masks[f"the window is off by one (too {word})"] = rest & other
    if w.mask is not None:
        masks["the mask is inverted: True hides a key"] = plain & ~w.mask
    if w.lengths is not None:
        longest = columns < w.lengths.max()
        masks["the length of the longest batch entry is used for all of them"] = plain & longest
    if w.lengths is not None and spec.causal:
        ends = w.lengths[:, None, None, None]
        bug = "lengths shift the causal diagonal, which is aligned to all keys"
        masks[bug] = (columns < ends) & (columns - rows <= ends - shape[0])
    return masks


def _each_left_out(w: Workload) -> dict[str, Workload]:
    """Return the workload without one of its options, by the option."""
    others = {}
    if len(w.spec.extras) > 1 and w.spec.window:
        others["window"] = replace(w, spec=replace(w.spec, window=0))
    if w.lengths is not None and len(w.spec.extras) > 1:
        others["lengths"] = replace(w, lengths=None)
    if w.cu_seqlens is not None and w.spec.causal:
        others["the causal mask within packed sequences"] = replace(
            w, spec=replace(w.spec, causal=False)
        )
    return others
