"""Shrinking of a failing case to the smallest that still fails, which a person can work through."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from assay.instruments.own_time import own_seconds
from assay.workloads.spec import WorkloadSpec

_LENGTHS = (1, 2, 3, 4, 8, 16, 17, 31, 32, 33, 63, 64, 65, 128, 129, 256, 257, 512, 513)
_PLAIN = {
    "values": "normal",
    "layout": "plain",
    "scale_percent": 100,
    "padded": False,
    "masked": False,
    "window": 0,
    "packed": 0,
    "causal": False,
    "dtype": "float32",
}


def shrink(
    spec: WorkloadSpec, still_fails: Callable[[WorkloadSpec], bool], *, until: float
) -> WorkloadSpec:
    """Return the smallest failing case that single steps reach before `until` (own_seconds)."""
    smallest, improved = spec, True
    while improved:
        improved = False
        for candidate in _smaller(smallest):
            if own_seconds() > until:
                return smallest
            if still_fails(candidate):
                smallest, improved = candidate, True
                break
    return smallest


def _smaller(spec: WorkloadSpec) -> Iterator[WorkloadSpec]:
    """Yield cases that are smaller or plainer by one step, the boldest step first."""
    if spec.batch > 1:
        yield replace(spec, batch=1)
    if spec.heads > spec.kv_heads:
        yield replace(spec, heads=spec.kv_heads)
    if spec.heads > 2 * spec.kv_heads:
        yield replace(spec, heads=2 * spec.kv_heads)
    if spec.kv_heads > 1:
        yield replace(spec, heads=spec.heads // spec.kv_heads, kv_heads=1)
    yield from _shorter(spec)
    if spec.head_dim > 16:
        yield replace(spec, head_dim=16)
    for name, plain in _PLAIN.items():
        if getattr(spec, name) != plain:
            yield replace(spec, **{name: plain})


def _shorter(spec: WorkloadSpec) -> Iterator[WorkloadSpec]:
    """Yield cases with fewer queries and keys, the fewest first; together where they are equal."""
    if spec.query_length == spec.key_length:
        for length in _below(spec.query_length):
            yield replace(spec, query_length=length, key_length=length)
        return
    for name in ("query_length", "key_length"):
        for length in _below(getattr(spec, name)):
            yield replace(spec, **{name: length})


def _below(length: int) -> list[int]:
    """Return the lengths to try, the smallest first, one less last."""
    return [n for n in _LENGTHS if n < length] + ([length - 1] if length - 1 > _LENGTHS[-1] else [])
