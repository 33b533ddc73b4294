"""Well-known mistakes, each as a reference that makes it: attention computed wrongly, in float64.

If a wrong result equals that of a suspect, to within the budget, the suspect names the cause. A
suspect that cannot make its mistake on a workload returns None.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np

from assay.attention import reference
from assay.attention.reference import Result
from assay.correctness.diagnosis import masks
from assay.workloads.workload import Workload

TILES = (16, 32, 64, 128, 256, 512)


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """A mistake in words, and what attention gives with it."""

    cause: str
    result: Callable[[], Result | None]


def suspects(workload: Workload) -> Iterator[Suspect]:
    """The mistakes that this workload can show, the likelier first."""
    yield from _of_masks(workload)
    yield from _of_scale(workload)
    yield from _of_heads(workload)
    yield from _of_tiles(workload)
    yield from _of_rows(workload)


def attend(w: Workload, *, visible: np.ndarray | None = None, scale: float | None = None) -> Result:
    """The reference on a workload, with something about it changed; gradients where it has a dO."""
    return reference.attention(
        w.q,
        w.k,
        w.v,
        causal=False,
        scale=w.spec.scale if scale is None else scale,
        grad_out=w.grad_out if w.grad_out.size else None,
        visible=w.visible if visible is None else visible,
    )


def _of_masks(w: Workload) -> Iterator[Suspect]:
    if w.spec.causal and not w.spec.packed:
        for cause, visible in masks.misplaced(w.spec).items():
            both = visible if not w.spec.extras else visible & _without_causal(w)
            yield Suspect(cause=cause, result=partial(attend, w, visible=both))
        for value, way in product((1e4, 1e6), ("added", "filled")):
            cause = (
                f"hidden scores are {'lowered by' if way == 'added' else 'filled with'} a finite "
                f"number ({'' if way == 'added' else '-'}{value:g}), which other scores outweigh"
            )
            yield Suspect(cause=cause, result=partial(_finite, w, value=value, way=way))
    for cause, visible in masks.options_misread(w).items():
        yield Suspect(cause=cause, result=partial(attend, w, visible=visible))


def _without_causal(w: Workload) -> np.ndarray:
    """What the other masks of a workload let through."""
    return replace(w, spec=replace(w.spec, causal=False)).visible


def _finite(w: Workload, *, value: float, way: str) -> Result:
    """Attention whose mask is not infinite."""
    scores, values = scores_of(w)
    low = scores - value if way == "added" else np.full_like(scores, -value)
    scores = np.where(w.visible, scores, low)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return _divided(weights, values, weights.sum(axis=-1, keepdims=True))


def _of_scale(w: Workload) -> Iterator[Suspect]:
    dim, scale = w.spec.head_dim, w.spec.scale
    padded = 1 << (dim - 1).bit_length()
    scales = {
        "the scale argument is ignored: 1/sqrt(head_dim) is used instead": dim**-0.5,
        "the scale is not applied": 1.0,
        "the scale is applied twice": scale * scale,
        "the scale is that of the head dimension padded to a power of two": padded**-0.5,
        "the scale is 1/head_dim": 1.0 / dim,
        "the scale is in base 2: log2(e) is missing or applied twice": scale * np.log2(np.e),
        "the scale is in base e where base 2 is meant: log2(e) is missing": scale / np.log2(np.e),
    }
    for cause, wrong in scales.items():
        if not np.isclose(wrong, scale):
            yield Suspect(cause=cause, result=partial(attend, w, scale=float(wrong)))


def _of_heads(w: Workload) -> Iterator[Suspect]:
    heads, kv_heads = w.spec.heads, w.spec.kv_heads
    index = np.arange(heads)
    choices = {
        "query head h reads kv head h % kv_heads, wanted h // group": index % kv_heads,
        "every query head reads kv head 0": 0 * index,
        "every query head reads the last kv head": 0 * index + kv_heads - 1,
        "the group of query heads that share a kv head is one too small": np.minimum(
            index // max(1, heads // kv_heads - 1), kv_heads - 1
        ),
        "the group of query heads that share a kv head is taken to be two": np.minimum(
            index // 2, kv_heads - 1
        ),
    }
    for cause, chosen in choices.items():
        if (chosen != index // (heads // kv_heads)).any():
            other = replace(w, k=w.k[:, chosen], v=w.v[:, chosen])
            yield Suspect(cause=cause, result=partial(_forward_only, other))
    yield Suspect(
        cause="keys and values are exchanged",
        result=partial(_forward_only, replace(w, k=w.v, v=w.k)),
    )
    if w.spec.batch > 1:
        first = {n: np.broadcast_to(getattr(w, n)[:1], getattr(w, n).shape) for n in ("k", "v")}
        cause = "every batch row reads the keys and values of row 0"
        yield Suspect(cause=cause, result=partial(_forward_only, replace(w, **first)))
    yield Suspect(
        cause="the layout of the output is [batch, seq, heads, dim], not [batch, heads, seq, dim]",
        result=partial(_other_layout, w),
    )


def _of_tiles(w: Workload) -> Iterator[Suspect]:
    keys = w.spec.key_length
    for tile in TILES:
        left = keys % tile
        if keys > tile and left:
            visible = w.visible & (np.arange(keys) < keys - left)
            cause = f"the last, partial tile of keys (of {tile}) is dropped"
            yield Suspect(cause=cause, result=partial(attend, w, visible=visible))
        if left:
            cause = (
                f"the padding of the last tile of keys (to {tile}) is not masked: its zeros count"
            )
            yield Suspect(cause=cause, result=partial(_zeros_count, w, count=tile - left))
        if keys > tile:
            twice = (np.arange(keys) % tile == 0) & (np.arange(keys) > 0)
            cause = f"the key on each boundary of tiles of {tile} is counted twice"
            yield Suspect(cause=cause, result=partial(_weighted, w, weight=1.0 + twice))
    if keys > 1:
        last, first = np.arange(keys) < keys - 1, np.arange(keys) > 0
        yield Suspect(
            cause="the last key is left out", result=partial(attend, w, visible=w.visible & last)
        )
        yield Suspect(
            cause="the first key is left out", result=partial(attend, w, visible=w.visible & first)
        )


def _of_rows(w: Workload) -> Iterator[Suspect]:
    yield Suspect(cause="the sum is not divided by the normaliser", result=partial(_raw, w))
    yield Suspect(
        cause="only the first of equal largest scores is attended", result=partial(_hard, w)
    )


def _forward_only(w: Workload) -> Result:
    """A workload whose kv heads were rearranged: its gradients would belong to other heads."""
    spec = replace(w.spec, kv_heads=w.k.shape[1])
    return attend(replace(w, spec=spec, grad_out=w.grad_out[:0]))


def scores_of(w: Workload) -> tuple[np.ndarray, np.ndarray]:
    """Scores before any mask, and the values, for each query head."""
    group = w.spec.heads // w.spec.kv_heads
    keys, values = (np.repeat(a, group, axis=1).astype(np.float64) for a in (w.k, w.v))
    return w.spec.scale * (w.q.astype(np.float64) @ keys.swapaxes(-1, -2)), values


def _probabilities(w: Workload) -> tuple[np.ndarray, np.ndarray]:
    """Weights before the normaliser, and the values, for each query head."""
    scores, values = scores_of(w)
    scores = np.where(w.visible, scores, -np.inf)
    highest = scores.max(axis=-1, keepdims=True)
    return np.exp(scores - np.where(np.isneginf(highest), 0.0, highest)), values


def _divided(weights: np.ndarray, values: np.ndarray, total: np.ndarray) -> Result:
    out = (weights / np.where(total == 0, 1.0, total)) @ values
    return Result(out=out, lse=np.full(out.shape[:-1], np.nan))  # no suspect of an LSE


def _weighted(w: Workload, *, weight: np.ndarray) -> Result:
    weights, values = _probabilities(w)
    weights = weights * weight
    return _divided(weights, values, weights.sum(axis=-1, keepdims=True))


def _zeros_count(w: Workload, *, count: int) -> Result:
    """Keys of zeros after the last: each has score 0, weight exp(-max), and adds no value."""
    scores, values = scores_of(w)
    scores = np.where(w.visible, scores, -np.inf)
    highest = np.maximum(scores.max(axis=-1, keepdims=True), 0.0)
    weights = np.exp(scores - highest)
    total = weights.sum(axis=-1, keepdims=True) + count * np.exp(-highest)
    return _divided(weights, values, total)


def _raw(w: Workload) -> Result:
    weights, values = _probabilities(w)
    return _divided(weights, values, np.ones_like(weights[..., :1]))


def _hard(w: Workload) -> Result:
    weights, _ = _probabilities(w)
    first = weights.argmax(axis=-1)[..., None] == np.arange(weights.shape[-1])
    return _weighted(w, weight=first * (weights > 0))


def _other_layout(w: Workload) -> Result:
    right = attend(w)
    turned = np.ascontiguousarray(right.out.swapaxes(1, 2)).reshape(right.out.shape)
    return Result(out=turned, lse=right.lse)
