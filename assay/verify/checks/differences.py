"""Every difference between two runs is the treatment, has no influence, or is explained."""

from collections.abc import Iterator
from typing import Any

from assay.verify.compared import ComparedRun, RunComparison
from assay.verify.finding import CheckFinding, fails, holds, is_other, not_tested

# Symbols of where things are put, what they are called and how long one waits for them.
INERT = {
    "STUDY", "RESULTS", "TRAIN_DATA_FOLDER", "CAPTURE_TO", "CELL_TIMEOUT_S", "CASE_TIMEOUT_S",
    "CELL_MEMORY_PERCENT", "TRACKERS", "TRACKER_PROJECT", "TRACKER_RUN", "ENGINE",
    "TRAIN_MICRO_BATCH", "TRAIN_REPORT_EVERY", "TRAIN_SAVE_EVERY", "TRAIN_SAMPLE_TOKENS",
}  # fmt: skip
# By how a symbol begins, the stages that read it: without records of one it has no influence.
READ_BY = {
    "TRAIN_": {"train"},
    "CACHE_": {"cache_quality", "cache_decode"},
    "CAPTURE": {"capture"},
    "NOISE_": {"noise"},
    "SUITE_": {"suite", "decode_suite", "check"},
}


def look(comparison: RunComparison) -> list[CheckFinding]:
    if len(comparison.runs) < 2:
        return []
    silent = _unsaid(*comparison.runs)
    findings = [
        _judged(comparison, name, words)
        for name, words in sorted(_all(*comparison.runs))
        if name not in silent
    ]
    if silent:
        findings.append(not_tested(f"said by one run only: {', '.join(sorted(silent))}"))
    if not any(value for run in comparison.runs for value in _facts(run).values()):
        findings.append(not_tested("neither run says how it was made"))
    return findings or [holds("the two runs differ in nothing")]


def differing(comparison: RunComparison) -> set[str]:
    """Names of everything in which two runs differ."""
    return {name for name, _ in _all(*comparison.runs)} if len(comparison.runs) == 2 else set()


def _unsaid(*runs: ComparedRun) -> set[str]:
    """Names that one of two runs gives and the other, which a tracker holds, does not. Where one
    program wrote both, such a name is a difference like any other."""
    if _of_one_program(*runs):
        return set()
    first, second = (_facts(run) for run in runs)
    return {
        name
        for name, values in _pairs(first, second)
        for run, value in zip(runs, values, strict=True)
        if run.origin and value in (None, "") and any(v not in (None, "") for v in values)
    }


def _of_one_program(one: ComparedRun, other: ComparedRun) -> bool:
    """True of two trackers' runs that call by the same names what we have a name for."""
    if not one.origin or not other.origin or one.origin.mirrored != other.origin.mirrored:
        return False
    shared = one.origin.read_as.keys() & other.origin.read_as.keys()
    return all(one.origin.read_as[name] == other.origin.read_as[name] for name in shared)


def _judged(comparison: RunComparison, name: str, words: str) -> CheckFinding:
    if name in comparison.treated:
        return holds(f"{words}: the treatment")
    stages = {record.stage for run in comparison.runs for record in run.records}
    unread = any(name.startswith(start) and not by & stages for start, by in READ_BY.items())
    if name in INERT or unread:
        return holds(f"{words}: without influence")
    reason = comparison.explained.get(name)
    if reason and any(run.origin and name in run.origin.unknown for run in comparison.runs):
        return fails(f"{words}: an unknown key, which no explanation excuses ({reason})")
    if reason:
        return holds(f"{words}: {reason}")
    return fails(f"{words}: neither the treatment nor explained")


def _all(one: ComparedRun, other: ComparedRun) -> Iterator[tuple[str, str]]:
    """Names of what differs, each with both values in words."""
    for name, (first, second) in _pairs(_facts(one), _facts(other)):
        if is_other(first, second):
            yield name, f"{name} is {_word(first)} and {_word(second)}"


def _facts(run: ComparedRun) -> dict[str, Any]:
    facts = {name: run.symbol(name) for name in run.run.config}
    for session in run.sessions:
        versions = session.host.get("versions", {})
        facts |= {f"versions.{name}": value for name, value in versions.items()}
        facts |= {name: session.host.get(name) for name in ("os", "cores")}
    facts |= {"commit": run.run.commit, "plugins": ", ".join(run.run.plugins)}
    drivers = {device["driver"] for device in run.gpus if device and device.get("driver")}
    return facts | {"driver": ", ".join(sorted(drivers))}


def _pairs(one: dict[str, Any], other: dict[str, Any]) -> Iterator[tuple[str, tuple[Any, Any]]]:
    for name in one | other:
        yield name, (one.get(name), other.get(name))


def _word(value: Any) -> str:
    return "not said" if value in (None, "") else str(value)
