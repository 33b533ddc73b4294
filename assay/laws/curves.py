"""Curves over the length: records whose workloads differ in nothing else."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from assay.laws.pairs import CellKey, cell_key
from assay.records.schema import Record

DECODE = "decode"  # the stage whose workloads are steps of decoding: few queries, any keys
MEASURING = ("bench", "layers", DECODE)  # the stages whose records laws are fitted to
# A record of how something ended does not give its level; its stage does.
_LEVELS = {"layers": "layer"}
_LENGTHS = re.compile(r"_q\d+_k\d+(?=_|$)")
_KEYS = re.compile(r"(?<=\d)_k\d+(?=_|$)")


@dataclass(frozen=True, kw_only=True)
class CurveSetting:
    """Machine, stage, level and workload of a curve's points, which differ in length alone."""

    host: str
    stage: str
    level: str
    # The workload's name without lengths: b1_h32_kv8_d128_causal_bfloat16; of a step of decoding,
    # with its queries.
    shape: str


@dataclass(frozen=True, kw_only=True)
class LengthCurve:
    """A metric of one subject by length, ascending; the median where a length was measured in
    several runs. `spec` is that of one of the workloads."""

    setting: CurveSetting
    subject: str
    metric: str
    unit: str
    spec: dict[str, Any]
    points: tuple[tuple[int, float], ...]


def length_of(record: Record) -> int | None:
    """Length of a workload with as many queries as keys, or the keys of a step of decoding; None
    for any other."""
    spec = record.workload.spec if record.workload else {}
    length = spec.get("key_length")
    if not isinstance(length, int) or length < 1:
        return None
    return length if record.stage == DECODE or spec.get("query_length") == length else None


def setting_of(record: Record) -> CurveSetting:
    """The setting of a record that has a workload."""
    assert record.workload
    return CurveSetting(
        host=record.host,
        stage=record.stage,
        level=record.level or _LEVELS.get(record.stage, "kernel"),
        shape=(_KEYS if record.stage == DECODE else _LENGTHS).sub("", record.workload.name),
    )


def curves(records: Sequence[Record], metrics: Sequence[str]) -> list[LengthCurve]:
    """The curves of some metrics, in the order of their first records."""
    values: dict[tuple[CurveSetting, str, str, str], dict[int, list[float]]] = {}
    specs: dict[tuple[CurveSetting, str, str, str], dict[str, Any]] = {}
    for record in records:
        length = length_of(record)
        if record.metric not in metrics or record.status != "ok" or length is None:
            continue
        value = median(record.samples) if record.samples else record.value
        if value is None:
            continue
        assert record.workload
        key = (setting_of(record), record.subject, record.metric, record.unit)
        specs.setdefault(key, record.workload.spec)
        values.setdefault(key, {}).setdefault(length, []).append(value)
    return [
        LengthCurve(
            setting=key[0],
            subject=key[1],
            metric=key[2],
            unit=key[3],
            spec=specs[key],
            points=tuple((length, median(each)) for length, each in sorted(by_length.items())),
        )
        for key, by_length in values.items()
    ]


def cells_by_length(
    records: Sequence[Record], metric: str
) -> dict[tuple[int, CellKey], dict[str, Record]]:
    """Records of each cell by subject: of `metric` where there is one, else how it ended.

    Keyed by the length and the cell; records without a length are left out.
    """
    cells: dict[tuple[int, CellKey], dict[str, Record]] = {}
    for record in records:
        length = length_of(record)
        if length is None or (record.metric != metric and record.status == "ok"):
            continue
        cell = cells.setdefault((length, cell_key(record)), {})
        if record.subject not in cell or record.metric == metric:
            cell[record.subject] = record
    return cells
