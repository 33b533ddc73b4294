"""Every difference between two runs is the treatment, has no influence, or is explained."""

from collections.abc import Iterator
from typing import Any

from assay.verify.compared import ComparedRun, RunComparison
from assay.verify.finding import CheckFinding, fails, holds

# Symbols of where things are put, what they are called and how long one waits for them.
INERT = {
    "STUDY", "RESULTS", "TRAIN_DATA_FOLDER", "CAPTURE_TO", "CELL_TIMEOUT_S", "CASE_TIMEOUT_S",
    "CELL_MEMORY_PERCENT", "TRACKERS", "TRACKER_PROJECT", "TRACKER_RUN", "ENGINE",
}  # fmt: skip


def look(comparison: RunComparison) -> list[CheckFinding]:
    if len(comparison.runs) < 2:
        return []
    found = [_judged(comparison, name, told) for name, told in sorted(_all(*comparison.runs))]
    return found or [holds("the two runs differ in nothing")]


def _judged(comparison: RunComparison, name: str, told: str) -> CheckFinding:
    if name in comparison.treated:
        return holds(f"{told}: the treatment")
    if name in INERT:
        return holds(f"{told}: without influence")
    if reason := comparison.explained.get(name):
        return holds(f"{told}: {reason}")
    return fails(f"{told}: neither the treatment nor explained")


def _all(one: ComparedRun, other: ComparedRun) -> Iterator[tuple[str, str]]:
    """Names of what differs, each with both values in words."""
    for name, (first, second) in _pairs(_facts(one), _facts(other)):
        if first != second:
            yield name, f"{name} is {_word(first)} and {_word(second)}"


def _facts(run: ComparedRun) -> dict[str, Any]:
    facts = {name: run.symbol(name) for name in run.run.config}
    facts |= {f"versions.{name}": value for name, value in (run.run.versions or {}).items()}
    facts |= {name: run.host.get(name) for name in ("os", "cores")}
    facts |= {"commit": run.run.commit, "plugins": ", ".join(run.run.plugins)}
    drivers = {device["driver"] for device in run.gpus if device and device.get("driver")}
    return facts | {"driver": ", ".join(sorted(drivers))}


def _pairs(one: dict[str, Any], other: dict[str, Any]) -> Iterator[tuple[str, tuple[Any, Any]]]:
    for name in one | other:
        yield name, (one.get(name), other.get(name))


def _word(value: Any) -> str:
    return "not said" if value in (None, "") else str(value)
