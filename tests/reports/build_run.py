"""Run folders made with the real schema, log and run functions, as a study would leave them."""

from collections import Counter
from pathlib import Path
from statistics import median

from laws import law_records
from laws.law_records import HOST, RUN

from assay.records.log import Log
from assay.records.run import Done, RunFolder, now, save, stage_records, write_done
from assay.records.schema import (
    CELL_SECONDS,
    SCHEMA,
    Measurement,
    Record,
    Run,
    Session,
    WorkloadIdentity,
)


def begin(folder: Path, **changes) -> RunFolder:
    """A run folder with run.json and no stage."""
    folder.mkdir(parents=True, exist_ok=True)
    session = {
        "commit": "0123456789abcdef0123",
        "dirty": True,
        "host": {
            "fingerprint": HOST,
            "cores": 2,
            "os": "Linux 6.1",
            "devices": [{"kind": "cpu", "index": 0, "name": "A CPU", "memory_bytes": 8 << 30}],
            "versions": {"python": "3.11.9", "numpy": "2.1.0"},
            "unknown": {"ptxas": "no ptxas on the PATH"},
        },
        "command": ["assay", "study", "run", "--config", "defconfigs/quickstart"],
    }
    sessions = [
        Session(number=number, started=f"2025-01-0{number}T00:00:00.000Z", **session)
        for number in (1, 2)
    ]
    fields = {
        "schema": SCHEMA,
        "run": RUN,
        "study": "quickstart",
        "config": {"CONFIG_DTYPE": '"float32"', "CONFIG_BENCH": "y"},
        "sessions": sessions,
        "plugins": [],
        "reasons": {"dataset": "no data set is read", "budget": "nothing is trained"},
        "commit": "0123456789abcdef0123",
        "dirty": True,
        "host": HOST,
        "devices": ["cpu"],
        "versions": {"python": "3.11.9", "numpy": "2.1.0"},
        "dtype": ["float32"],
        "seed": 0,
    }
    run = RunFolder(path=folder)
    save(run, Run(**{**fields, **changes}))
    return run


def workload(key_length: int = 128, **changes) -> WorkloadIdentity:
    """Causal attention of one sequence in float32, 8 heads and 2 kv heads of 64."""
    sizes = {"heads": 8, "kv_heads": 2, "head_dim": 64, "dtype": "float32"}
    return law_records.workload(key_length, **{**sizes, **changes})


def append(run: RunFolder, stage: str, cell: str, *measured: Measurement, attempt: int = 1) -> None:
    """One cell's batch of records, closed by the seconds it took."""
    worst = next((m for m in measured if m.status != "ok"), None)
    last = Measurement(
        metric=CELL_SECONDS,
        value=1.25,
        unit="s",
        status=worst.status if worst else "ok",
        reason=f"{worst.subject}: {worst.reason}".removeprefix(": ") if worst else None,
    )
    run.stage(stage).mkdir(parents=True, exist_ok=True)
    with Log(run.log(stage)) as log:
        log.append([_record(each, stage, cell, attempt) for each in (*measured, last)])


def end(run: RunFolder, stage: str, *, status: str = "ok", reason: str | None = None) -> None:
    run.stage(stage).mkdir(parents=True, exist_ok=True)
    ends = {r.cell: r.status for r in stage_records(run, stage) if r.metric == CELL_SECONDS}
    done = Done(
        status=status,
        reason=reason,
        cells=dict.fromkeys(ends, "f" * 16),
        counts=dict(Counter(ends.values())),
        session=2,
        time=now(),
    )
    write_done(run, stage, done)


def latency(subject: str, samples: list[float], key_length: int = 128, **changes) -> Measurement:
    """A latency of one subject; without samples it is unknown, and `changes` says why."""
    fields = {
        "metric": "latency_ms",
        "value": median(samples) if samples else None,
        "unit": "ms",
        "samples": samples,
        "subject": subject,
        "level": "kernel",
        "source": "perf_counter around the call",
        "workload": workload(key_length),
    }
    return Measurement(**{**fields, **changes})


def measured(metric: str, value: float | None, unit: str, subject: str, **changes) -> Measurement:
    """Any metric of one subject, on the workload of length 128 unless `changes` gives another."""
    fields = {"metric": metric, "value": value, "unit": unit, "subject": subject}
    return Measurement(**{**fields, "workload": workload(), **changes})


def checked(subject: str, key_length: int = 128, **changes) -> Measurement:
    """A passed check, without which no speed is told."""
    fields = {"metric": "error_over_budget_out", "value": 0.25, "unit": "ratio"}
    return measured(**{**fields, "subject": subject, "workload": workload(key_length), **changes})


def _record(measurement: Measurement, stage: str, cell: str, attempt: int) -> Record:
    fields = {name: getattr(measurement, name) for name in measurement.__struct_fields__}
    return Record(
        **fields,
        schema=SCHEMA,
        run=RUN,
        session=max(attempt, 2),
        stage=stage,
        cell=cell,
        fingerprint="f" * 16,
        host=HOST,
        time=now(),
        attempt=attempt,
    )
