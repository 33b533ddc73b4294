"""Records such as a study makes, in any number: ten subjects, ten metrics, eight raw samples."""

import random
from collections.abc import Iterator, Sequence
from itertools import product
from statistics import median

from assay.records.identity import digest
from assay.records.schema import CELL_SECONDS, SCHEMA, Record, WorkloadIdentity
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import identity

SUBJECTS = tuple(f"implementation_{number}" for number in range(10))
METRICS = (
    *("forward_ms", "backward_ms", "both_ms", "warmup_ms", "compile_ms"),
    *("first_call_ms", "prepare_ms", "transfer_ms", "synchronise_ms", "total_ms"),
)
SAMPLES = 8
# Values are multiples of this, so that they add up to the same sum in any order.
_STEP = 2.0**-36


def batches(
    *, run: str, stage: str, cells: int, cell_records: int, seed: int = 0
) -> Iterator[list[Record]]:
    """The records of one cell after another; the last of each ends its cell."""
    draw = random.Random(seed)
    workloads = [identity(spec, digest(spec.as_dict())) for spec in _specs()]
    for number in range(cells):
        workload = workloads[number % len(workloads)]
        cell = f"latency/{workload.name}/{number}"
        yield _cell(draw, cell_records, workload, run=run, stage=stage, cell=cell)


def _cell(
    draw: random.Random, count: int, workload: WorkloadIdentity, **place: str
) -> list[Record]:
    pairs = list(product(SUBJECTS, METRICS))
    measured = [pairs[index % len(pairs)] for index in range(count - 1)]
    return [
        _record(subject, metric, [draw.uniform(0.1, 10.0) for _ in range(SAMPLES)], workload, place)
        for subject, metric in [*measured, ("", CELL_SECONDS)]
    ]


def _record(
    subject: str,
    metric: str,
    samples: Sequence[float],
    workload: WorkloadIdentity,
    place: dict[str, str],
) -> Record:
    return Record(
        schema=SCHEMA,
        session=1,
        fingerprint="9f86d081884c7d65",
        host="2c26b46b68ffc68f",
        time="2026-01-01T00:00:00.000Z",
        subject=subject,
        metric=metric,
        value=round(median(samples) / _STEP) * _STEP,
        unit="ms",
        samples=list(samples),
        level="kernel",
        source="time.perf_counter_ns around one call, after a warm-up",
        workload=workload,
        **place,
    )


def _specs() -> list[WorkloadSpec]:
    return [
        WorkloadSpec(
            batch=batch,
            heads=8,
            kv_heads=8,
            query_length=length,
            key_length=length,
            head_dim=64,
            dtype=dtype,
            causal=True,
            seed=0,
        )
        for batch, length, dtype in product(
            (1, 4), (64, 256, 1024, 4096), ("float32", "float16", "bfloat16")
        )
    ]
