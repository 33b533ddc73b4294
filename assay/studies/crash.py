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
_REPEATED = "large"  # the probe that repeats the batch of its cases until it is large
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
    tail, where `is_right` says that the first of these cases is right in whole blocks; and at a
    large batch, where it is right on a small one."""
    ended = [
        (m, parse(case[1], defaults=_PLAIN))
        for m in measurements
        if m.cause == ENDS and (case := _CASE.match(m.reason or ""))
    ]
    if large := [each for each in ended if each[0].metric == _REPEATED and is_right(each[1])]:
        text = f"{ENDS} where the batch is large, and is right on a small one: an index overflows"
        changed = {id(m): msgspec.structs.replace(m, cause=text) for m, _ in large}
        measurements = [changed.get(id(m), m) for m in measurements]
    tails = {id(m): spec for m, spec in ended if m.metric != _REPEATED and _in_blocks(spec) != spec}
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
