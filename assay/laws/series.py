"""Which records lie on one curve over the length: those whose workloads differ in nothing else."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from assay.records.schema import Record

# An outcome does not say its level; its stage does.
_LEVELS = {"layers": "layer"}
_LENGTHS = re.compile(r"_q\d+_k\d+(?=_|$)")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What the points of a curve share: machine, stage, level and the workload but its length."""

    host: str
    stage: str
    level: str
    shape: str  # the workload's name without lengths: b1_h32_kv8_d128_causal_bfloat16


@dataclass(frozen=True, kw_only=True)
class Series:
    """A metric of one subject by length, ascending; where a length was measured in several runs,
    the median of their values. `spec` is that of one of the workloads."""

    setting: Setting
    subject: str
    metric: str
    unit: str
    spec: dict[str, Any]
    points: tuple[tuple[int, float], ...]


def length_of(record: Record) -> int | None:
    """The length of a workload with as many queries as keys; None for any other."""
    spec = record.workload.spec if record.workload else {}
    length = spec.get("key_length")
    square = isinstance(length, int) and length > 0 and spec.get("query_length") == length
    return length if square else None


def setting_of(record: Record) -> Setting:
    """Where a record that has a workload belongs."""
    assert record.workload
    return Setting(
        host=record.host,
        stage=record.stage,
        level=record.level or _LEVELS.get(record.stage, "kernel"),
        shape=_LENGTHS.sub("", record.workload.name),
    )


def value_of(record: Record) -> float | None:
    """The median of a record's samples, or its value where it has none."""
    return median(record.samples) if record.samples else record.value


def series(records: Sequence[Record], metrics: Sequence[str]) -> list[Series]:
    """The curves of some metrics, in the order of their first records."""
    found: dict[tuple[Setting, str, str, str], dict[int, list[float]]] = {}
    specs: dict[tuple[Setting, str, str, str], dict[str, Any]] = {}
    for record in records:
        length = length_of(record)
        if record.metric not in metrics or record.status != "ok" or length is None:
            continue
        value = value_of(record)
        if value is None:
            continue
        assert record.workload
        key = (setting_of(record), record.subject, record.metric, record.unit)
        specs.setdefault(key, record.workload.spec)
        found.setdefault(key, {}).setdefault(length, []).append(value)
    return [
        Series(
            setting=key[0],
            subject=key[1],
            metric=key[2],
            unit=key[3],
            spec=specs[key],
            points=tuple((length, median(values)) for length, values in sorted(points.items())),
        )
        for key, points in found.items()
    ]
