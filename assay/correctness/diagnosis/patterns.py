"""Patterns of a failure: a condition that tells failing cases from passing ones, the places of
wrong elements, a constant factor, and errors of the size of a lower precision's rounding."""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from operator import attrgetter

import numpy as np

from assay.attention.budget import ulp
from assay.workloads.spec import DTYPES, LAYOUTS, VALUES, WorkloadSpec

_FEWEST_CASES = 2  # failing and passing ones, below which a condition may be chance
_FEWEST_ELEMENTS = 8  # below which any error looks like a factor
_FEWEST_ROWS = 8  # below which errors are no statistics
_UNEVEN = 30.0  # times the error of other rows: no rounding differs so
_TILES = (16, 32, 64, 128)
_LENGTHS = (16, 32, 64, 100, 128, 256, 512)
_AXES = ("batch entry", "head", "row")  # of [batch, heads, rows, ...]
_LOWER_PRECISIONS = {"bfloat16": "bfloat16", "float16": "float16 or TF32"}

Condition = tuple[str, Callable[[WorkloadSpec], bool]]


def common_condition(
    failing: Sequence[WorkloadSpec], passing: Sequence[WorkloadSpec]
) -> str | None:
    """Return the simplest condition that all failing cases meet and no passing one, in words such
    as "where Sq != Sk"; None where no single condition and no pair of them does."""
    if len(failing) < _FEWEST_CASES or len(passing) < _FEWEST_CASES:
        return None
    conditions = list(_conditions())
    for text, holds in conditions:
        if _separates(holds, failing, passing):
            return text
    # Conditions stand from what defects often depend on to what they seldom do.
    for places in sorted(combinations(range(len(conditions)), 2), key=sum):
        (first_text, first), (second_text, second) = (conditions[place] for place in places)
        if _separates(lambda spec, a=first, b=second: a(spec) and b(spec), failing, passing):
            alone = [[holds(s) for s in passing].count(True) for holds in (first, second)]
            # One case that meets a half may pass by chance: where a softmax saturates, say.
            if min(alone) >= _FEWEST_CASES:
                return f"{first_text} and {second_text.removeprefix('where ')}"
    return None


def _separates(
    holds: Callable[[WorkloadSpec], bool],
    failing: Sequence[WorkloadSpec],
    passing: Sequence[WorkloadSpec],
) -> bool:
    return all(holds(spec) for spec in failing) and not any(holds(spec) for spec in passing)


def _conditions() -> Iterator[Condition]:
    yield "where Sq != Sk", lambda s: s.query_length != s.key_length
    yield "where the mask is causal", lambda s: s.causal
    yield "where the mask is full", lambda s: not s.causal
    yield "where heads are grouped", lambda s: s.heads != s.kv_heads
    for ratio in (2, 4):
        yield f"where more than {ratio} query heads share a kv head", lambda s, r=ratio: (
            s.heads > r * s.kv_heads
        )
    yield "where there are several kv heads", lambda s: s.kv_heads > 1
    yield "where there is more than one head", lambda s: s.heads > 1
    yield "where the batch is larger than one", lambda s: s.batch > 1
    yield "where Sq > Sk", lambda s: s.query_length > s.key_length
    yield "where Sq < Sk", lambda s: s.query_length < s.key_length
    yield "where the scale is not 1/sqrt(head_dim)", lambda s: s.scale_percent != 100
    yield "in half precision", lambda s: s.dtype != "float32"
    for dtype in DTYPES:
        yield f"in {dtype}", lambda s, d=dtype: s.dtype == d
    yield "where head_dim is not a power of two", lambda s: s.head_dim & (s.head_dim - 1) > 0
    for size in (16, 32, 64):
        yield f"where head_dim is not a multiple of {size}", lambda s, n=size: s.head_dim % n > 0
    yield from _length_conditions()
    for dim in (32, 64, 128):
        yield f"where head_dim > {dim}", lambda s, d=dim: s.head_dim > d
    for ratio in (3, 4, 8):
        yield f"where {ratio} query heads share a kv head", lambda s, r=ratio: (
            s.heads == r * s.kv_heads
        )
    for kind in VALUES[1:]:
        yield f"where values are {kind}", lambda s, v=kind: s.values == v
    yield "where scores are large", lambda s: s.values in ("large", "huge", "onehot")
    for layout in LAYOUTS[1:]:
        yield f"where inputs lie in memory {layout}", lambda s, x=layout: s.layout == x
    yield "where inputs are not contiguous", lambda s: s.layout != "plain"


def _length_conditions() -> Iterator[Condition]:
    sides = (("Sk", attrgetter("key_length")), ("Sq", attrgetter("query_length")))
    for tile in reversed(_TILES):
        for side, n in sides:
            yield f"where {side} is not a multiple of {tile}", lambda s, n=n, t=tile: n(s) % t > 0
    for length in _LENGTHS:
        for side, n in sides:
            yield f"where {side} > {length}", lambda s, n=n, least=length: n(s) > least
    for side, n in sides:
        yield f"where {side} is odd", lambda s, n=n: n(s) % 2 == 1
        yield f"where {side} > 1", lambda s, n=n: n(s) > 1
    for tile in _TILES:
        for side, n in sides:
            yield f"where {side} is a multiple of {tile}", lambda s, n=n, t=tile: n(s) % t == 0


def wrong_places(tensor: str, actual: np.ndarray, right: np.ndarray, allowed: np.ndarray) -> str:
    """Return in words the batch entries, heads and rows that hold all the wrong elements; empty
    where nothing stands out."""
    with np.errstate(invalid="ignore"):
        wrong = ~(np.abs(actual - right) <= allowed)
    where = places(tensor, wrong) if wrong.mean() <= 0.9 else ""
    return f"wrong only in {where}" if where else ""


def places(tensor: str, wrong: np.ndarray, axes: Sequence[str] = _AXES) -> str:
    """Return in words the parts of each axis that hold all of what is wrong; empty where these are
    all parts."""
    spans = []
    for axis, name in enumerate(axes[: wrong.ndim]):
        others = tuple(n for n in range(wrong.ndim) if n != axis)
        indices, total = np.flatnonzero(wrong.any(axis=others)), wrong.shape[axis]
        if 0 < len(indices) < total:
            spans.append(f"{_span(indices, total, name)} of {tensor}")
    return ", ".join(spans)


def _span(indices: np.ndarray, total: int, name: str) -> str:
    first, last = int(indices[0]), int(indices[-1])
    if len(indices) == 1:
        if first in (0, total - 1):
            return f"the {'last' if first else 'first'} {name}"
        return f"{name} {first}"
    plural = f"{name.removesuffix('y')}ies" if name.endswith("entry") else f"{name}s"
    if len(indices) != last - first + 1:
        return f"{len(indices)} of {total} {plural}"
    return f"{plural} from {first} on" if last == total - 1 else f"{plural} {first} to {last}"


def constant_factor(actual: np.ndarray, right: np.ndarray, allowed: np.ndarray) -> float | None:
    """Return the factor other than 1 by which every element is off; None where there is none."""
    square = float((right * right).sum())
    if not square or not np.isfinite(actual).all():
        return None
    factor = float((actual * right).sum() / square)
    if abs(factor) < 1e-3 or (abs(factor - 1) < 0.02 and not _is_exact(factor, actual, right)):
        return None
    fits = np.abs(actual - factor * right) <= allowed * max(1.0, abs(factor)) * 2
    return factor if fits.all() else None


def _is_exact(factor: float, actual: np.ndarray, right: np.ndarray) -> bool:
    """Return whether a factor near 1 leaves nothing of the errors, as no rounding would."""
    rest, error = np.linalg.norm(actual - factor * right), np.linalg.norm(actual - right)
    return actual.size >= _FEWEST_ELEMENTS and bool(rest < 0.1 * error)


def is_spread(error: np.ndarray, allowed: np.ndarray) -> bool:
    """Return whether errors, [B, H, M, ...], are of one size in all heads and blocks of rows,
    beside what is allowed there; few rows tell nothing."""
    with np.errstate(invalid="ignore"):
        squares = ((error / allowed) ** 2).mean(axis=-1)
    rows = squares.shape[2]
    if rows < _FEWEST_ROWS:
        return True
    starts = np.arange(0, rows, _TILES[-2])
    blocks = np.add.reduceat(squares, starts, axis=2) / np.diff([*starts, rows])
    sizes = np.sqrt(blocks[:, :, np.diff([*starts, rows]) >= _FEWEST_ROWS])
    return not sizes.max() > _UNEVEN * sizes.min()


def lower_precision(actual: np.ndarray, right: np.ndarray) -> str | None:
    """Return the precision whose rounding the errors of a float32 tensor look like, or None."""
    if not np.isfinite(actual).all():
        return None
    error = np.abs(actual - right)
    for dtype, name in _LOWER_PRECISIONS.items():
        unit = float(ulp(np.abs(right).max(), dtype))
        if 0.01 * unit < error.mean() < 0.6 * unit and error.max() < 8 * unit:
            return name
    return None
