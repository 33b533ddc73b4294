"""Reasons for which an implementation ends its process, as far as another case can tell.

A kernel that works in whole blocks and does not say so reads or writes beyond its arrays where a
length leaves a tail. Its process ends there, and no one in it can look for the reason; another
process can try the same case in whole blocks.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec

from assay.records.schema import Measurement
from assay.workloads.spec import WorkloadSpec, parse

ENDS = "it ends its process"
_BLOCK = 128
_CASE = re.compile(r"on case (\w+): ")
_PLAIN = WorkloadSpec(  # the name of a case says all of it, but for a seed of 0
    batch=1,
    heads=1,
    kv_heads=1,
    query_length=1,
    key_length=1,
    head_dim=1,
    dtype="float32",
    causal=True,
    seed=0,
)


def at_case(name: str, reason: str) -> str:
    """The reason of a process that ended at a case."""
    return f"on case {name}: {reason}"


def explained(
    measurements: Sequence[Measurement], is_right: Callable[[WorkloadSpec], bool]
) -> list[Measurement]:
    """The measurements, with a better cause for those of processes that ended at a length with a
    tail, where `is_right` says that the first of these cases is right in whole blocks."""
    tails = {
        id(measurement): spec
        for measurement in measurements
        if measurement.cause == ENDS
        and (case := _CASE.match(measurement.reason or ""))
        and _in_blocks(spec := parse(case[1], defaults=_PLAIN)) != spec
    }
    whole = _in_blocks(next(iter(tails.values()))) if tails else None
    if whole is None or not is_right(whole):
        return list(measurements)
    cause = (
        f"{ENDS} where a length is no multiple of {_BLOCK}, and is right at {whole.query_length} x "
        f"{whole.key_length}: memory beyond its arrays is read or written; mask the tail of the "
        "last block, or assert the multiple"
    )
    return [msgspec.structs.replace(m, cause=cause) if id(m) in tails else m for m in measurements]


def _in_blocks(spec: WorkloadSpec) -> WorkloadSpec:
    queries, keys = (-(-n // _BLOCK) * _BLOCK for n in (spec.query_length, spec.key_length))
    return replace(spec, query_length=queries, key_length=keys)
