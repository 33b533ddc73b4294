"""Numbers that cannot all be true are refused by name, and sound ones are not."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

from assay import host, peaks
from assay.performance import audit
from assay.performance.cell import CellRequest, run
from assay.performance.rounds import RoundSettings
from assay.records.run import load_records
from assay.records.schema import Measurement
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import identity

SPEC = WorkloadSpec(
    batch=1, heads=8, kv_heads=8, query_length=1024, key_length=1024, head_dim=64, dtype="float32",
    causal=True, seed=0,
)  # fmt: skip
EVIDENCE = sorted(Path(__file__).parents[2].glob("evidence/*/metrics.jsonl.gz"))


def timed(metric: str, samples: list[float]) -> Measurement:
    middle = sorted(samples)[len(samples) // 2]
    return Measurement(
        subject="mine", metric=metric, value=middle, unit="ms", samples=samples,
        workload=identity(SPEC),
    )  # fmt: skip


def around(value: float, count: int = 7) -> list[float]:
    return [value * (1 + 0.003 * i) for i in range(count)]


def work(**amounts: float) -> list[Measurement]:
    return [
        Measurement(subject="mine", metric=metric, value=value, unit="")
        for metric, value in amounts.items()
    ]


CEILINGS = [
    Measurement(subject="cpu", metric=metric, value=value, unit=unit)
    for metric, value, unit in (
        ("read_bandwidth.64", 100.0, "GB/s"),
        ("read_bandwidth.1024", 70.0, "GB/s"),
        ("read_bandwidth.16384", 30.0, "GB/s"),
        ("read_bandwidth", 15.0, "GB/s"),
        ("matmul_rate", 0.05, "TFLOP/s"),
    )
]


def broken(*measurements: Measurement) -> dict[str, str]:
    broken_keys = audit.violations(measurements, CEILINGS)
    return {metric: violation.invariant for (_, metric), violation in broken_keys.items()}


@pytest.mark.parametrize(
    "samples", [[1.5] * 20, [0.004] * 20, [1.5, 1.5, 1.5, 1.5, 2.5] * 4], ids=str
)
def test_samples_that_repeat_are_refused(samples):
    assert broken(timed("latency_ms", samples)) == {"latency_ms": "equal samples"}


def test_steps_of_a_clock_are_no_repetition():
    assert not broken(timed("latency_ms", [0.009248, 0.00928, 0.009312] * 10))
    assert not broken(timed("latency_ms", [1.5] * 3))  # too few to say


def test_training_before_forward_takes_both_times():
    forward, training = timed("latency_ms", around(2.0)), timed("training_ms", around(1.5))
    names = dict.fromkeys(("latency_ms", "training_ms"), "training before forward")
    assert broken(forward, training) == names
    assert not broken(forward, timed("training_ms", around(1.99)))  # within their spread


def test_a_time_that_is_not_believed_takes_no_other_with_it():
    """The clock stood still on a sample that something else had slowed down."""
    names = broken(timed("latency_ms", [9.0] * 7), timed("training_ms", around(2.0)))
    assert names == {"latency_ms": "equal samples"}


@pytest.mark.parametrize(
    ("size", "milliseconds", "verdict"),
    [
        (1 << 30, 50.0, "faster than memory"),  # 72 ms at 15 GB/s
        (1 << 30, 65.0, None),
        (8 << 20, 0.04, "faster than memory"),  # 0.12 ms at 70 GB/s, twice of which is believed
        (8 << 20, 0.08, None),  # a part of it may lie in the cache of 1 MiB
        (256 << 10, 0.0001, "faster than memory"),
        (16 << 10, 0.0001, None),  # less than what was read: not judged
    ],
)
def test_time_is_at_least_that_of_the_bytes_in_their_level(size, milliseconds, verdict):
    seen = broken(timed("latency_ms", around(milliseconds)), *work(forward_bytes=size))
    assert seen.get("latency_ms") == verdict


def test_time_is_at_least_that_of_the_operations():
    flops = work(forward_flops=1e9)  # 20 ms at 0.05 TFLOP/s
    assert broken(timed("latency_ms", around(10.0)), *flops)
    assert not broken(timed("latency_ms", around(17.0)), *flops)


def test_a_violation_takes_the_value_and_names_itself():
    repeated = timed("latency_ms", [1.5] * 20)
    beside = timed("latency_ms.first", [1.5])
    other = timed("training_ms", around(9.0))
    measured = [repeated, beside, other]
    refused, first, kept = audit.refused(measured, audit.violations(measured, ()))
    assert kept == other and (first.status, first.value) == ("refused", None)
    assert (refused.status, refused.value, refused.samples) == ("refused", None, [])
    assert refused.reason == (
        "not believed (equal samples): 20 samples have 1 different values around 1.5 ms"
    )


@pytest.mark.parametrize("path", EVIDENCE, ids=lambda path: path.parent.name)
def test_measurements_of_real_machines_stand(path):
    """Of an H200 and of CPUs, from 10 us up."""
    cells: dict[tuple[str, str], list[Measurement]] = {}
    records = load_records(path.parent)
    for record in records:
        cells.setdefault((record.stage, record.cell), []).append(record)
    ceilings = [record for record in records if record.stage == "host"]
    for measurements in cells.values():
        assert not audit.violations(measurements, ceilings)


@pytest.mark.sampled
@pytest.mark.parametrize("length", [1, 16, 128, 512])
def test_tiny_and_cache_resident_workloads_stand(length):
    spec = WorkloadSpec(
        batch=1, heads=4, kv_heads=4, query_length=length, key_length=length, head_dim=32,
        dtype="float32", causal=True, seed=0,
    )  # fmt: skip
    request = CellRequest(
        probes=("latency", "training", "work"), workload=spec, subjects=("sdpa",), device="cpu",
        settings=RoundSettings(warmup=2, rounds=10),
    )  # fmt: skip
    items = [m for m in run(request, host.inspect()) if isinstance(m, Measurement)]
    assert not audit.violations(items, _ceilings())


def _ceilings() -> list[Measurement]:
    if not _measured:
        _measured.extend(peaks.measure("cpu"))
    return _measured


_measured: list[Measurement] = []
