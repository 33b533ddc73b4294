"""A run as a tracker holds it: configuration, rows of values by step, readings of the machine.

Rows keep apart what is a number and what is not: a value that is missing, not finite or no number
is named with its reason and never filled in.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from assay.records.schema import DEVICE_READINGS

EMPTY, NOT_FINITE, NO_NUMBER = "empty", "not finite", "no number"
# Begins the names of what assay's own mirrors send of the device.
DEVICE = "device/"
# Columns that hold the step of training, where every row has one; else it is W&B's own row number.
STEP_COLUMNS = ("step", "train/global_step", "trainer/global_step", "global_step", "iter")
_NON_FINITE = {"nan", "inf", "infinity", "-inf", "-infinity", "+inf", "+infinity"}
_MOST_STEPS = 1 << 53
_DEEPEST = 20


@dataclass(frozen=True, kw_only=True)
class TrackerRow:
    """Values that were logged together; a row of system readings has no step."""

    values: dict[str, float]
    unusable: dict[str, str] = field(default_factory=dict)  # the reason, by metric
    step: int | None = None
    time: float | None = None  # in seconds, from any start


@dataclass(frozen=True, kw_only=True)
class RunMetadata:
    """The machine and the code of a run, as far as its tracker knows them."""

    commit: str | None = None
    gpu_name: str | None = None
    gpu_count: int | None = None
    gpu_memory_bytes: int | None = None  # of one
    os: str | None = None
    cores: int | None = None
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class TrackerRun:
    """One run of one tracker. None is what the tracker does not say."""

    source: str  # name of the plugin that read it
    place: str  # the file, folder or project
    name: str
    identity: str | None = None
    project: str | None = None
    entity: str | None = None
    group: str | None = None
    host: str | None = None
    state: str | None = None
    config: dict[str, Any] = field(default_factory=dict)  # nested keys are joined by dots
    history: tuple[TrackerRow, ...] = ()
    system: tuple[TrackerRow, ...] = ()
    summary: dict[str, Any] = field(default_factory=dict)
    tables: tuple[Mapping[str, Any], ...] = ()  # rows of the table that assay's mirrors send
    metadata: RunMetadata = RunMetadata()
    step_column: str = "_step"  # the column that its steps are
    remarks: tuple[str, ...] = ()  # what a reader must know before he believes it

    @property
    def label(self) -> str:
        """Its name, and what tells it from others of that name."""
        return f"{self.name} ({self.identity})" if self.identity else self.name


def reading(value: Any) -> float | str:
    """A finite number, or the reason why there is none."""
    if value is None or value == "":
        return EMPTY
    if isinstance(value, str) and value.strip().lower() in _NON_FINITE:
        return NOT_FINITE
    if isinstance(value, bool) or not isinstance(value, int | float):
        return NO_NUMBER
    try:
        return float(value) if math.isfinite(value) else NOT_FINITE
    except OverflowError:
        return NOT_FINITE


def flat(values: Mapping[str, Any], prefix: str = "", *, depth: int = 0) -> dict[str, Any]:
    """Nested values under names joined by dots; what a tracker marks with a type stays whole, and
    so does what lies deeper than anybody nests."""
    flattened: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and value and "_type" not in value and depth < _DEEPEST:
            flattened |= flat(value, f"{prefix}{name}.", depth=depth + 1)
        else:
            flattened[f"{prefix}{name}"] = value
    return flattened


def row(values: Mapping[str, Any], *, step: int | None = None, at: Any = None) -> TrackerRow:
    """A row of what a tracker logged, without the keys that trackers add."""
    numbers: dict[str, float] = {}
    unusable: dict[str, str] = {}
    for name, value in flat(values).items():
        if name.startswith("_"):
            continue
        number = reading(value)
        if isinstance(number, str):
            unusable[name] = number
        else:
            numbers[name] = number
    return TrackerRow(values=numbers, unusable=unusable, step=step, time=seconds(at))


def history(logged: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Those fields of a run that follow from its rows: by step, with readings that assay's own
    mirrors sent apart."""
    entries = [flat(entry) for entry in logged]
    column = next((c for c in STEP_COLUMNS if _holds_steps(c, entries)), "_step")
    rows, readings = [], []
    for entry in entries:
        moment = entry.get("_timestamp", entry.get("_runtime"))
        step = _step(entry.get(column))
        own = {name: v for name, v in entry.items() if name.startswith(DEVICE)}
        rest = {n: v for n, v in entry.items() if n not in own and n != column}
        rows.append(row(rest, step=step, at=moment))
        if own:
            readings.append(row(own, at=moment))
    unnumbered = sum(entry.step is None for entry in rows)
    remark = f"{unnumbered:,} of {len(rows):,} rows have no step"
    return {
        "history": tuple(entry for entry in rows if entry.values or entry.unusable),
        "system": tuple(readings),
        "step_column": column,
        "remarks": (remark,) if unnumbered else (),
    }


def _holds_steps(column: str, entries: list[dict[str, Any]]) -> bool:
    return bool(entries) and all(_step(entry.get(column)) is not None for entry in entries)


def _step(value: Any) -> int | None:
    number = reading(value)
    if isinstance(number, str) or not number.is_integer() or not 0 <= number < _MOST_STEPS:
        return None
    return int(number)


def seconds(moment: Any) -> float | None:
    """A time in seconds: of a number, or of a date as ISO 8601 writes it."""
    if isinstance(moment, str):
        try:
            return datetime.fromisoformat(moment).timestamp()
        except ValueError:
            return None
    number = reading(moment)
    return None if isinstance(number, str) else number


def device_name(name: str) -> str:
    """The name of a reading: those of assay's mirrors are marked as such."""
    return f"{DEVICE}{name}" if name in DEVICE_READINGS else name


def plain_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration, flat, without what trackers add to it."""
    kept = {name: value for name, value in config.items() if not str(name).startswith("_")}
    return flat(kept)
