"""Where does it fail? The simplest condition on a case that tells the failing from the passing."""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from assay.workloads.spec import DTYPES, LAYOUTS, VALUES, WorkloadSpec

_FEWEST = 2  # failing and passing cases, below which a condition may be chance
_TILES = (16, 32, 64, 128)
_LENGTHS = (16, 32, 64, 100, 128, 256, 512)

Condition = tuple[str, Callable[[WorkloadSpec], bool]]


def where(failing: Sequence[WorkloadSpec], passing: Sequence[WorkloadSpec]) -> str | None:
    """Words such as "where Sq != Sk"; None where no simple condition fits all cases."""
    if len(failing) < _FEWEST or len(passing) < _FEWEST:
        return None
    conditions = list(_conditions())
    for text, holds in conditions:
        if _tells(holds, failing, passing):
            return text
    for (one, first), (other, second) in combinations(conditions, 2):
        if _tells(lambda spec, a=first, b=second: a(spec) and b(spec), failing, passing):
            return f"{one} and {other.removeprefix('where ')}"
    return None


def _tells(
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
    yield from _of_lengths()
    for dim in (32, 64, 128):
        yield f"where head_dim > {dim}", lambda s, d=dim: s.head_dim > d
    for ratio in (3, 4, 8):
        yield f"where {ratio} query heads share a kv head", lambda s, r=ratio: (
            s.heads == r * s.kv_heads
        )
    for kind in VALUES[1:]:
        yield f"where values are {kind}", lambda s, v=kind: s.values == v
    loud = ("large", "huge", "onehot")
    yield "where scores are large", lambda s: s.values in loud
    for layout in LAYOUTS[1:]:
        yield f"where inputs lie in memory {layout}", lambda s, x=layout: s.layout == x
    yield "where inputs are not contiguous", lambda s: s.layout != "plain"


def _of_lengths() -> Iterator[Condition]:
    sides = (("Sk", "key_length"), ("Sq", "query_length"))
    for tile in reversed(_TILES):
        for side, name in sides:
            yield f"where {side} is not a multiple of {tile}", lambda s, n=name, t=tile: (
                getattr(s, n) % t > 0
            )
    for length in _LENGTHS:
        for side, name in sides:
            yield f"where {side} > {length}", lambda s, n=name, t=length: getattr(s, n) > t
    for side, name in sides:
        yield f"where {side} is odd", lambda s, n=name: getattr(s, n) % 2 == 1
        yield f"where {side} > 1", lambda s, n=name: getattr(s, n) > 1
    for tile in _TILES:
        for side, name in sides:
            yield f"where {side} is a multiple of {tile}", lambda s, n=name, t=tile: (
                getattr(s, n) % t == 0
            )
