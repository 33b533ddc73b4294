"""Growth of the verbs that read a run with its cells and with its records.

A run is written through the log's own writer, with the cells that a study plans here and now, so
that nothing of it is due. Each verb reads it in a process of its own; the CPU time of that process
counts, which a busy machine lengthens less than the wall time. Target: exponents below 1.1.
"""

import math
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from resource import struct_rusage
from tempfile import TemporaryDirectory

from assay import host
from assay.records import run as runs
from assay.records.durable import make_folder
from assay.records.log import Log
from assay.records.schema import CELL_SECONDS, Measurement, Stamp, WorkloadIdentity
from assay.studies import kconfig, plan, session
from assay.studies.execute import ActiveRun
from assay.workloads.workload import identity

SUBJECTS = ("plan", "status", "resume", "query", "report")
# Sizes as pairs of cells and records: the first grow in cells, the others in records.
SIZES = {
    "verbs": list(SUBJECTS),
    "cells": [[1_000, 10_000], [3_000, 30_000], [10_000, 100_000]],
    "records": [[1_000, 30_000], [1_000, 100_000], [1_000, 300_000]],
}
_PER_LENGTH = 8  # cells: two stages, two batches, two masks
_BATCH = 5_000  # records that are appended together
_SQL = "SELECT subject, metric, count(*), avg(value) FROM records GROUP BY ALL"


@dataclass(frozen=True, kw_only=True)
class VerbCost:
    """One process that ran a verb on a made run; `grown` says what its series grows in."""

    verb: str
    grown: str
    cells: int
    records: int
    cpu_s: float
    peak_bytes: int


def measure(
    scratch: Path,
    *,
    verbs: Sequence[str],
    cells: Sequence[Sequence[int]],
    records: Sequence[Sequence[int]],
) -> Iterator[Measurement]:
    """`cpu_s` of each verb at each size, and `exponent_cells` and `exponent_records` of it."""
    measured = list(map(partial(cost, scratch), jobs(verbs, cells, records)))
    for series in by_series(measured).values():
        for each in series:
            yield _measured(each, "cpu_s", each.cpu_s, "s")
        yield _measured(series[-1], f"exponent_{series[-1].grown}", exponent(series), "")


def jobs(
    verbs: Sequence[str], cells: Sequence[Sequence[int]], records: Sequence[Sequence[int]]
) -> list[tuple[str, str, int, int]]:
    """What grows, the verb, cells and records of each process, the largest first."""
    series = {"cells": cells, "records": records}
    made = [(grown, verb, *size) for grown in series for size in series[grown] for verb in verbs]
    return sorted(made, key=lambda job: -job[3])


def by_series(costs: Iterable[VerbCost]) -> dict[tuple[str, str], list[VerbCost]]:
    """Costs of each verb and each way to grow, the largest last."""
    series: dict[tuple[str, str], list[VerbCost]] = {}
    for each in sorted(
        costs, key=lambda each: (each.grown, SUBJECTS.index(each.verb), each.records)
    ):
        series.setdefault((each.verb, each.grown), []).append(each)
    return series


def exponent(series: Sequence[VerbCost]) -> float:
    """The slope of the logarithms between the two largest sizes, least bent by constant costs."""
    less, more = series[-2:]
    sizes = getattr(more, more.grown) / getattr(less, less.grown)
    return math.log(more.cpu_s / less.cpu_s) / math.log(sizes)


def cost(scratch: Path, job: tuple[str, str, int, int]) -> VerbCost:
    """Run a verb on a run of this size, which is made for it."""
    grown, verb, cells, records = job
    lengths = ",".join(str(16 * (n + 1)) for n in range(max(1, cells // _PER_LENGTH)))
    settings = (
        *("STUDY=grown", "STAGES=check,bench", "IMPLEMENTATIONS=eager,sdpa", "BATCHES=1,2"),
        *("MASKS=full,causal", "HEADS=8/8", "PROBES=accuracy,latency", "DEVICE_CPU=y"),
    )
    study = kconfig.load(None, [*settings, f"LENGTHS={lengths}"])
    with TemporaryDirectory(prefix=".spine-", dir=make_folder(scratch)) as results:
        with session.started(study, host.inspect(), Path(results), "grown") as active:
            _write(active, records)
        config = Path(results, "grown.config")
        kconfig.write_config(study.config, config)
        run = str(active.folder.path)
        commands = {
            "plan": ["study", "plan", "--config", str(config)],
            "status": ["study", "status", run],
            "resume": ["study", "resume", run],
            "query": ["query", "--out", results, _SQL],
            "report": ["report", run],
        }
        usage = _usage(commands[verb])
    return VerbCost(
        verb=verb,
        grown=grown,
        cells=cells,
        records=records,
        cpu_s=usage.ru_utime + usage.ru_stime,
        peak_bytes=usage.ru_maxrss << 10,
    )


def _write(active: ActiveRun, records: int) -> None:
    """Records of all cells of a run, as if all of it was done."""
    each = records // sum(len(stage.cells) for stage in active.stages)
    for stage in active.stages:
        make_folder(active.folder.stage(stage.name))
        with Log(active.folder.log(stage.name)) as log:
            waiting: list[runs.Record] = []
            for planned in stage.cells:
                waiting += _records(stage.name, planned, active, each)
                if len(waiting) >= _BATCH:
                    log.append(waiting)
                    waiting = []
            log.append(waiting)


def _records(
    stage: str, planned: plan.PlannedCell, active: ActiveRun, count: int
) -> list[runs.Record]:
    cell, first = planned.cell, "latency_ms" if stage == "bench" else "error_over_budget_out"
    assert cell.workload
    workload = identity(cell.workload, "0" * 32)
    value = cell.workload.key_length / 100
    metrics = [first, *(f"made_{n}_ms" for n in range(1, (count - 1) // len(cell.subjects)))]
    made = [
        Measurement(
            metric=metric,
            value=value,
            unit="ms" if metric.endswith("_ms") else "",
            subject=subject,
            samples=[value + n / 1000 for n in range(8)],
            workload=workload,
        )
        for metric in metrics
        for subject in cell.subjects
    ]
    end = Measurement(metric=CELL_SECONDS, value=1.0, unit="s", workload=workload)
    stamp = Stamp(
        run=active.run,
        session=active.session,
        stage=stage,
        cell=cell.name,
        fingerprint=planned.fingerprint,
        attempt=1,
    )
    return runs.stamped([*made, end], stamp, host=active.host.fingerprint)


def _usage(arguments: Sequence[str]) -> struct_rusage:
    """Time and memory of `assay` with these arguments, its children included."""
    command = [sys.executable, "-m", "assay", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"assay {' '.join(arguments)} ends with {process.returncode}")
    return usage


def _measured(of: VerbCost, metric: str, value: float, unit: str) -> Measurement:
    name, spec = f"run_{of.cells}_{of.records}", {"cells": of.cells, "records": of.records}
    return Measurement(
        metric=metric,
        value=value,
        unit=unit,
        subject=of.verb,
        source="user and system time of one process that runs the verb on a made run",
        workload=WorkloadIdentity(name=name, spec=spec, content=None),
    )
