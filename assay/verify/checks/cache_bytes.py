"""Bytes of caches are what shape and dtype give, to the byte, and are of one amount of tokens."""

from collections.abc import Iterator
from math import prod

from assay.laws.byte_bound import CACHE_BYTES
from assay.records.schema import Record
from assay.verify.compared import ComparedRun, RunComparison
from assay.verify.finding import CheckFinding, fails, holds, named, not_tested

READ, PER_TOKEN = "cache_read_bytes", "cache_bytes_per_token"
# Those of a decode workload whose product, twice, is the number of values in a dense cache.
_AXES = ("batch", "kv_heads", "key_length", "head_dim")
_ITEM_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


def look(comparison: RunComparison) -> list[CheckFinding]:
    return [_of(run) for run in comparison.runs if run.of(CACHE_BYTES) or run.of(READ)]


def _of(run: ComparedRun) -> CheckFinding:
    if wrong := [*_miscounted(run), *_of_other_tokens(run)]:
        return fails(f"{run.name}: {named(wrong)}")
    dense = [r for r in run.of(CACHE_BYTES) if _dense_bytes(r) is not None]
    parts = [r for r in run.of(READ) if _streams(r) is not None]
    if not dense and not parts:
        return not_tested(f"{run.name}: nothing says of what its caches' bytes are made")
    return holds(
        f"{run.name}: {len(dense)} dense caches by shape and dtype, {len(parts)} by their streams"
    )


def _miscounted(run: ComparedRun) -> Iterator[str]:
    for record in run.of(CACHE_BYTES):
        expected = _dense_bytes(record)
        if expected is not None and record.value != expected:
            yield f"{record.subject} on {record.cell}: {record.value:.0f} bytes, not {expected}"
    for record in run.of(READ):
        streams = _streams(record)
        if streams is not None and record.value != streams:
            yield f"{record.subject}: {record.value} bytes read, its streams have {streams}"


def _of_other_tokens(run: ComparedRun) -> Iterator[str]:
    """Layouts of one cell whose bytes are of unlike numbers of tokens."""
    tokens: dict[str, set[float]] = {}
    per_token = {(r.cell, r.subject): r.value for r in run.of(PER_TOKEN)}
    for record in run.of(READ):
        each = per_token.get((record.cell, record.subject))
        if each and record.value is not None:
            tokens.setdefault(record.cell, set()).add(record.value / each)
    for cell, counts in tokens.items():
        if len(counts) > 1:
            shown = ", ".join(f"{count:.6g}" for count in sorted(counts))
            yield f"{cell}: bytes of {shown} tokens side by side"


def _dense_bytes(record: Record) -> int | None:
    """Bytes of K and V as they are, by the workload; None where it does not give them, and for a
    cache in another layout."""
    layout, _, _ = record.subject.rpartition(":")
    spec = record.workload.spec if record.workload else {}
    sizes = [spec.get(axis) for axis in _AXES]
    item = _ITEM_BYTES.get(str(spec.get("dtype")))
    if (layout and layout != "dense") or item is None:
        return None
    if not all(isinstance(size, int) for size in sizes):
        return None
    return 2 * prod(sizes) * item


def _streams(record: Record) -> float | None:
    streams = (record.data or {}).get("streams")
    values = list(streams.values()) if isinstance(streams, dict) else []
    return sum(values) if values and all(isinstance(v, int | float) for v in values) else None
