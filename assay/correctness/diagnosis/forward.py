"""Known bugs of attention, each as a float64 reference that has it.

A wrong result that equals that of a bug, within the error budget, names the cause.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product

import numpy as np

from assay.attention import reference
from assay.attention.reference import Result
from assay.correctness.diagnosis import masks
from assay.workloads.workload import Workload

TILES = (4, 8, 16, 32, 64, 128, 256, 512)
BOUNDS = (5, 8, 10, 15, 16, 20, 30, 32, 40, 50, 60, 64, 80, 88, 100, 128, 200, 256, 500, 512, 1000)

Bugs = Iterator[tuple[str, Result]]  # the bug in words, and the result of attention that has it


def bugs(workload: Workload) -> Bugs:
    """Yield the bugs that this workload can show, the likelier first."""
    yield from _mask_bugs(workload)
    yield from _scale_bugs(workload)
    yield from _head_bugs(workload)
    yield from _tile_bugs(workload)
    yield from _clamp_bugs(workload)
    yield from _normaliser_bugs(workload)
    yield "only the first of several equal largest scores is attended to", _first_largest(workload)


def attend(w: Workload, *, visible: np.ndarray | None = None, scale: float | None = None) -> Result:
    """Return the reference with another mask or scale, and gradients where the workload has dO."""
    return reference.attention(
        w.q,
        w.k,
        w.v,
        causal=False,
        scale=w.spec.scale if scale is None else scale,
        grad_out=w.grad_out if w.grad_out.size else None,
        visible=w.visible if visible is None else visible,
    )


def scores_of(w: Workload) -> tuple[np.ndarray, np.ndarray]:
    """Return unmasked scores [B, H, M, N] and values [B, H, N, D], for each query head."""
    group = w.spec.heads // w.spec.kv_heads
    keys, values = (np.repeat(a, group, axis=1).astype(np.float64) for a in (w.k, w.v))
    return w.spec.scale * (w.q.astype(np.float64) @ keys.swapaxes(-1, -2)), values


def _mask_bugs(w: Workload) -> Bugs:
    if w.spec.causal and not w.spec.packed:
        others = replace(w, spec=replace(w.spec, causal=False)).visible if w.spec.extras else True
        for bug, visible in masks.misplaced(w.spec).items():
            yield from _each(bug, _masked(w, visible=visible & others))
        for value, way in product((1e4, 1e6), ("lowered by ", "filled with -")):
            bug = f"masked scores are {way}{value:g}, a finite number that other scores outweigh"
            yield bug, _masked_by_finite(w, value=value, added=way == "lowered by ")
    for bug, visible in masks.bounded_by_queries(w).items():
        yield from _each(bug, _masked(w, visible=visible))
    for bug, visible in masks.options_misread(w).items():
        yield bug, attend(w, visible=visible)


def _each(bug: str, results: Iterable[Result]) -> Bugs:
    """Yield one bug with each result that it may have."""
    return ((bug, result) for result in results)


def _masked(w: Workload, *, visible: np.ndarray) -> Iterator[Result]:
    """Yield attention with another mask. A row that it leaves without a key is zeros; or 0/0; or,
    where hidden scores are a finite number, the mean of all values."""
    right = attend(w, visible=visible)
    yield right
    blind = ~visible.any(axis=-1, keepdims=True)  # [B or 1, H or 1, M, 1]
    if blind.any():
        _, values = scores_of(w)
        for row in (np.nan, values.mean(axis=-2, keepdims=True)):
            yield _only_output(np.where(blind, row, right.out))


def _masked_by_finite(w: Workload, *, value: float, added: bool) -> Result:
    scores, values = scores_of(w)
    return _softmax(np.where(w.visible, scores, scores - value if added else -value), values)


def _scale_bugs(w: Workload) -> Bugs:
    dim, scale = w.spec.head_dim, w.spec.scale
    padded = 1 << (dim - 1).bit_length()
    scales = {
        "the scale argument is ignored: 1/sqrt(head_dim) is used instead": dim**-0.5,
        "the scale is not applied": 1.0,
        "the scale is applied twice": scale * scale,
        "the scale is that of the head dimension padded to a power of two": padded**-0.5,
        "the scale is 1/head_dim": 1.0 / dim,
        "log2(e) is applied to the scale once too often": scale * np.log2(np.e),
        "log2(e) is missing from the scale of a softmax in base 2": scale / np.log2(np.e),
    }
    for bug, wrong in scales.items():
        if not np.isclose(wrong, scale):
            yield bug, attend(w, scale=float(wrong))


def _head_bugs(w: Workload) -> Bugs:
    heads, kv_heads = w.spec.heads, w.spec.kv_heads
    index = np.arange(heads)
    one_too_small = index // max(1, heads // kv_heads - 1)
    kv_head_of = {
        "query head h reads kv head h % kv_heads, wanted h // group": index % kv_heads,
        "every query head reads kv head 0": 0 * index,
        "every query head reads the last kv head": 0 * index + kv_heads - 1,
        "the group of query heads that share a kv head is one too small": np.minimum(
            one_too_small, kv_heads - 1
        ),
        "the group of query heads that share a kv head is taken to be two": np.minimum(
            index // 2, kv_heads - 1
        ),
    }
    for bug, chosen in kv_head_of.items():
        if (chosen != index // (heads // kv_heads)).any():
            yield bug, _rearranged(w, k=w.k[:, chosen], v=w.v[:, chosen])
    yield "k and v are swapped", _rearranged(w, k=w.v, v=w.k)
    if w.spec.batch > 1:
        k, v = (np.broadcast_to(a[:1], a.shape) for a in (w.k, w.v))
        yield "every batch entry reads the keys and values of entry 0", _rearranged(w, k=k, v=v)
    right = attend(w)
    out = np.ascontiguousarray(right.out.swapaxes(1, 2)).reshape(right.out.shape)
    bug = "the output has layout [batch, seq, heads, dim], not [batch, heads, seq, dim]"
    yield bug, Result(out=out, lse=right.lse)


def _rearranged(w: Workload, *, k: np.ndarray, v: np.ndarray) -> Result:
    """Return the forward pass on other keys and values; gradients would belong to other heads."""
    spec = replace(w.spec, kv_heads=k.shape[1])
    return attend(replace(w, spec=spec, k=k, v=v, grad_out=w.grad_out[:0]))


def _tile_bugs(w: Workload) -> Bugs:
    keys = w.spec.key_length
    columns = np.arange(keys)
    for tile in TILES:
        left = keys % tile
        if left:
            dropped = list(_masked(w, visible=w.visible & (columns < keys - left)))
            bug = f"the last, partial tile of {tile} keys is dropped"
            yield from _each(bug, dropped if keys > tile else ())
            yield from _each(f"{bug}, also where there is no other", dropped)
            bug = f"the padding of the last tile of {tile} keys is not masked: its zeros count"
            yield bug, _zeros_counted(w, count=tile - left)
        if keys > tile:
            twice = (columns % tile == 0) & (columns > 0)
            bug = f"the key at each boundary of tiles of {tile} keys is counted twice"
            yield bug, _weighted(w, weight=1.0 + twice)
    if keys > 1:
        yield "the last key is left out", attend(w, visible=w.visible & (columns < keys - 1))
        yield "the first key is left out", attend(w, visible=w.visible & (columns > 0))


def _zeros_counted(w: Workload, *, count: int) -> Result:
    """Return attention over `count` more keys of zeros: score 0, weight exp(-max), no value."""
    scores, values = scores_of(w)
    scores = np.where(w.visible, scores, -np.inf)
    highest = np.maximum(scores.max(axis=-1, keepdims=True), 0.0)
    weights = np.exp(scores - highest)
    total = weights.sum(axis=-1, keepdims=True) + count * np.exp(-highest)
    return _divided(weights, values, total)


def _exponentials(w: Workload) -> tuple[np.ndarray, np.ndarray]:
    """Return exp(score - row maximum) [B, H, M, N], and the values for each query head."""
    scores, values = scores_of(w)
    return _shifted_exp(np.where(w.visible, scores, -np.inf)), values


def _shifted_exp(scores: np.ndarray) -> np.ndarray:
    highest = scores.max(axis=-1, keepdims=True)
    return np.exp(scores - np.where(np.isneginf(highest), 0.0, highest))


def _softmax(scores: np.ndarray, values: np.ndarray) -> Result:
    """Return attention with scores [B, H, M, N] that are masked already; -inf hides a key."""
    weights = _shifted_exp(scores)
    return _divided(weights, values, weights.sum(axis=-1, keepdims=True))


def _weighted(w: Workload, *, weight: np.ndarray) -> Result:
    weights, values = _exponentials(w)
    weights = weights * weight
    return _divided(weights, values, weights.sum(axis=-1, keepdims=True))


def _clamp_bugs(w: Workload) -> Bugs:
    """Yield scores that are cut off at a bound, after the scale is applied or before."""
    scores, values = scores_of(w)
    highest = np.abs(np.where(w.visible, scores, 0.0)).max()
    factors = {"before the softmax": 1.0, "before the scale is applied": w.spec.scale}
    for (when, factor), bound in product(factors.items(), BOUNDS):
        if (limit := factor * bound) < highest:
            both_sides = np.clip(scores, -limit, limit)
            bug = f"scores are clamped to +-{bound} {when}"
            # Clamped after the mask, a hidden key counts as much as the lowest score.
            for hidden in (-np.inf, -limit):
                yield bug, _softmax(np.where(w.visible, both_sides, hidden), values)
            lowered = np.where(w.visible, np.minimum(scores, limit), -np.inf)
            yield f"scores are clamped to at most {bound} {when}", _softmax(lowered, values)


def _normaliser_bugs(w: Workload) -> Bugs:
    """Yield weights that are not divided by their row's sum, or twice: by the sum of exp(score),
    less the row's maximum or not."""
    weights, values = _exponentials(w)
    total = weights.sum(axis=-1, keepdims=True)
    yield (
        "the output is not divided by the softmax sum",
        _divided(weights, values, np.ones_like(total)),
    )
    scores, _ = scores_of(w)
    highest = np.where(w.visible, scores, -np.inf).max(axis=-1, keepdims=True)
    for second in (total, total * np.exp(np.clip(highest, -700.0, 700.0))):
        yield (
            "weights are normalised twice: divided by the softmax sum two times",
            _divided(weights, values, total * second),
        )


def _first_largest(w: Workload) -> Result:
    weights, _ = _exponentials(w)
    first = weights.argmax(axis=-1)[..., None] == np.arange(weights.shape[-1])
    return _weighted(w, weight=first * (weights > 0))


def _divided(weights: np.ndarray, values: np.ndarray, total: np.ndarray) -> Result:
    return _only_output((weights / np.where(total == 0, 1.0, total)) @ values)


def _only_output(out: np.ndarray) -> Result:
    return Result(out=out, lse=np.full(out.shape[:-1], np.nan))  # explains no wrong LSE
