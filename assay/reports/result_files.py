"""The results of a run as JSON, for programs: performance, memory, correctness, a file each.

Settings (`config`) and measurements (`results`) are kept apart, so that no setting can stand in a
result's place. Unknown is null with a reason. Every value has its raw samples.
"""

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from assay.laws.pairs import PAIRED_METRICS
from assay.laws.rates import rates
from assay.records.durable import write_atomically
from assay.records.run import RunFolder
from assay.records.schema import CELL_METRICS, MODELS, SEVERITY, Record, Run
from assay.records.verdicts import CHECKING, is_verdict
from assay.reports.contents import Contents
from assay.reports.ratios import ratios_to_baseline

SCHEMA = 1
_MEMORY = (
    "forward_peak_bytes",
    "training_peak_bytes",
    "saved_bytes",
    "workspace_bytes",
    "reserved_peak_bytes",
    "fragmentation",
    "kv_cache_bytes",
)
_CORRECTNESS = (*CHECKING, MODELS)
_ERRORS = ("max_error_", "gradient")  # beside the verdicts, where a stage checks what it times
_FIELDS = ("metric", "value", "unit", "status", "reason", "cause", "level", "source", "alone")
_RATIO = ("against", "value", "low", "high", "rounds")

# A result's stage, cell, workload and subject.
_Key = tuple[str, str, str, str]


def write_results(folder: RunFolder, contents: Contents) -> tuple[Path, ...]:
    """Write the files that have a row; remove those of an earlier build that have none now."""
    written = []
    for kind, rows in results_by_kind(contents.records).items():
        path = folder.path / f"{kind}_results.json"
        if not rows:
            path.unlink(missing_ok=True)
            continue
        content = {
            "schema": SCHEMA,
            "kind": kind,
            "run": contents.run.run,
            "study": contents.run.study,
            "environment": environment(contents.run),
            "config": dict(sorted(contents.run.config.items())),
            "results": rows,
        }
        text = msgspec.json.format(msgspec.json.encode(content), indent=1)
        write_atomically(path, text + b"\n")
        written.append(path)
    return tuple(written)


def environment(run: Run) -> dict[str, Any]:
    """Machine, versions, code and commands; what is null has its reason in `unknown`."""
    host = run.sessions[-1].host if run.sessions else {}
    return {
        "host": run.host,
        "os": host.get("os"),
        "cores": host.get("cores"),
        "devices": host.get("devices"),
        "used_devices": run.devices,
        "versions": run.versions,
        "commit": run.commit,
        "dirty": run.dirty,
        "commands": [" ".join(session.command) for session in run.sessions],
        "started": [session.started for session in run.sessions],
        "unknown": {**(host.get("unknown") or {}), **run.reasons},
    }


def results_by_kind(records: Sequence[Record]) -> dict[str, list[dict[str, Any]]]:
    """The rows of each file, sorted by stage, cell, workload and subject."""
    records = [record for record in records if record.metric not in CELL_METRICS]
    kinds: dict[str, list[Record]] = {"performance": [], "memory": [], "correctness": []}
    for record in records:
        for kind in _kinds(record):
            kinds[kind].append(record)
    derived = _derived(records)
    return {kind: _rows(members, derived) for kind, members in kinds.items()}


def _kinds(record: Record) -> list[str]:
    """The files of a record: how a subject ended concerns its speed and its memory."""
    if record.stage in _CORRECTNESS:
        return ["correctness"]
    if is_verdict(record) or record.metric.startswith(_ERRORS):
        return ["correctness"]
    if record.value is None and not record.unit:
        return ["performance", "memory"]
    return ["memory" if record.metric.startswith(_MEMORY) else "performance"]


def _rows(records: Sequence[Record], derived: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    groups: dict[_Key, list[Record]] = {}
    for record in records:
        name = record.workload.name if record.workload else ""
        groups.setdefault((record.stage, record.cell, name, record.subject), []).append(record)
    return [_row(key, groups[key], derived) for key in sorted(groups)]


def _row(
    key: _Key, records: Sequence[Record], derived: dict[int, dict[str, Any]]
) -> dict[str, Any]:
    stage, cell, _, subject = key
    worst = min(records, key=lambda record: SEVERITY.index(record.status))
    workload = records[0].workload
    return {
        "stage": stage,
        "cell": cell,
        "subject": subject,
        "workload": msgspec.to_builtins(workload) if workload else None,
        "status": worst.status,
        "reason": worst.reason if worst.status != "ok" else None,
        "values": [
            _value(record, derived.get(id(record), {}))
            for record in sorted(records, key=lambda record: record.metric)
        ],
    }


def _value(record: Record, derived: dict[str, Any]) -> dict[str, Any]:
    return {
        **{name: getattr(record, name) for name in _FIELDS},
        "statistics": _statistics(record.samples) if record.samples else None,
        **derived,
        "samples": record.samples,
    }


def _derived(records: Sequence[Record]) -> dict[int, dict[str, Any]]:
    """The rate and the ratio to the first subject of each timed record."""
    derived: dict[int, dict[str, Any]] = {}
    for stage in dict.fromkeys(record.stage for record in records):
        of_stage = [record for record in records if record.stage == stage]
        for metric in PAIRED_METRICS:
            for key, ratio in ratios_to_baseline(of_stage, metric, run=records).items():
                fields = {name: getattr(ratio, name) for name in _RATIO}
                derived.setdefault(key, {})["ratio"] = {**fields, "reason": ratio.reason or None}
    for key, rate in rates(records).items():
        derived.setdefault(key, {})["rate"] = msgspec.to_builtins(rate)
    return derived


def _statistics(samples: Sequence[float]) -> dict[str, float | int | None]:
    """Statistics of at least one sample; what a single one does not have is None."""
    several, mean = len(samples) > 1, statistics.fmean(samples)
    fives = statistics.quantiles(samples, n=20, method="inclusive") if several else []
    return {
        "n": len(samples),
        "median": statistics.median(samples),
        "mean": mean,
        # statistics.stdev adds fractions, which took a quarter of a large report's time.
        "std": (
            math.dist(samples, [mean] * len(samples)) / math.sqrt(len(samples) - 1)
            if several
            else None
        ),
        "min": min(samples),
        "max": max(samples),
        "p5": fives[0] if several else None,
        "p25": fives[4] if several else None,
        "p75": fives[14] if several else None,
        "p95": fives[18] if several else None,
    }
