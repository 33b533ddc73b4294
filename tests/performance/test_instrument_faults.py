"""Planted faults of instruments: none gives a number that a table would show."""

import random
import time
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

from assay import host, peaks
from assay.frameworks import torch as torch_framework
from assay.instruments.reading import Peak, Reading
from assay.performance import calibration
from assay.performance.cell import CellRequest, run
from assay.performance.memory import isolated
from assay.performance.rounds import RoundSettings
from assay.records.schema import Measurement
from assay.workloads.spec import WorkloadSpec

SPEC = WorkloadSpec(
    batch=1, heads=2, kv_heads=2, query_length=33, key_length=33, head_dim=16, dtype="float32",
    causal=True, seed=0,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _uncalibrated():
    """What an earlier test calibrated does not count, nor what this one did."""
    calibration.calibrated.cache_clear()
    yield
    calibration.calibrated.cache_clear()


def measured(subject: str, *probes: str) -> dict[str, Measurement]:
    request = CellRequest(
        probes=probes, workload=SPEC, subjects=(subject,), device="cpu",
        settings=RoundSettings(warmup=2, rounds=5),
    )  # fmt: skip
    items = run(request, host.inspect())
    return {m.metric: m for m in items if isinstance(m, Measurement) and m.subject == subject}


@dataclass
class FaultyClock:
    """A clock whose reading goes through `fault`."""

    fault: object
    source = "a test"
    launch_ms = None

    def time(self, work):
        start = time.perf_counter_ns()
        result = work()
        return self.fault((time.perf_counter_ns() - start) / 1e6), result


CLOCKS = {
    "twice as fast": lambda read: 2.0 * read,
    "half as fast": lambda read: 0.5 * read,
    "in seconds": lambda read: read / 1e3,
    "returns 0": lambda read: 0.0,
    "yesterday's value": lambda read: 1.25,
    "another process's value": lambda read: random.uniform(1.0, 30.0),
    "stops before the work is done": lambda read: min(read, 0.02),
    "10 % slow": lambda read: 0.9 * read,
}


@pytest.mark.parametrize("fault", CLOCKS)
def test_times_of_a_faulty_clock_are_refused(monkeypatch, fault):
    monkeypatch.setattr(torch_framework, "clock", lambda device: FaultyClock(CLOCKS[fault]))
    monkeypatch.setattr(calibration, "_TRIES", 1)  # a clock that is right by chance in one of three
    monkeypatch.setattr(calibration._DRAW, "uniform", random.Random(3).uniform)
    results = measured("sdpa", "accuracy", "latency", "training", "kernels")
    for probe in ("latency", "training"):
        assert results[probe].status == "refused"
        assert "the clock fails its calibration" in results[probe].reason
    assert not [m for m in results.values() if m.metric.startswith(("latency_ms", "training_ms"))]
    assert results["kernels"].status == "ok"  # what the fault has no part in stays


OPERATIONS = {
    "drops kernels": lambda ran: ran[:-1],
    "sees nothing": lambda ran: [],
    "another call's profile": lambda ran: [SimpleNamespace(name="aten::add", encloses=False)] * 3,
    "yesterday's profile": lambda ran: [SimpleNamespace(name="aten::mm", encloses=False)] * 3,
    "every kernel twice": lambda ran: [*ran, *ran],
}


@pytest.mark.parametrize("fault", OPERATIONS)
def test_kernels_of_a_faulty_profiler_are_refused(monkeypatch, fault):
    right = torch_framework.operations
    monkeypatch.setattr(
        torch_framework,
        "operations",
        lambda call, inputs: OPERATIONS[fault]([o for o in right(call, inputs) if not o.encloses]),
    )
    results = measured("sdpa", "accuracy", "latency", "kernels")
    assert results["kernels"].status == "refused"
    assert "the profiler fails its calibration" in results["kernels"].reason
    assert results["latency_ms"].status == "ok"


SIZES = {
    "returns 0": lambda right: 0,
    "half": lambda right: right // 2,
    "yesterday's value": lambda right: 33_554_432,
    "another process's value": lambda right: right + (5 << 20),
    "in kilobytes": lambda right: right // 1024,
}


@pytest.mark.parametrize("fault", SIZES)
def test_peaks_of_a_faulty_account_are_refused(monkeypatch, fault):
    framework = pytest.importorskip("assay.frameworks.jax")
    right = framework.peak

    def wrong(*arguments, **options):
        return Peak(value=SIZES[fault](right(*arguments, **options).value), source="a test")

    monkeypatch.setattr(framework, "peak", wrong)
    results = measured("jax_xla", "accuracy", "memory")
    assert results["memory"].status == "refused"
    assert "the account of memory fails its calibration" in results["memory"].reason
    assert not any(m.metric.endswith("_bytes") and m.value is not None for m in results.values())


@pytest.mark.sampled
@pytest.mark.parametrize("fault", SIZES)
def test_a_faulty_count_in_another_process_gives_no_peak(monkeypatch, fault):
    right = torch_framework.counted_peak

    def wrong(run):
        return Peak(value=SIZES[fault](right(run).value), source="a test")

    monkeypatch.setattr(torch_framework, "counted_peak", wrong)
    monkeypatch.setattr(isolated._DRAW, "randrange", lambda low, high: 5 << 20)  # 20 MiB
    request = {"kind": "sequence", "name": "eager", "spec": SPEC.as_dict(), "device": "cpu"}
    answers = {key: value for line in isolated.answer(request) for key, value in line.items()}
    assert "an array of 20,971,520 B reads as" in answers["blind"]


@pytest.mark.parametrize("fault", SIZES)
def test_saved_bytes_of_a_faulty_hook_are_refused(monkeypatch, fault):
    right = torch_framework.saved_bytes

    def wrong(*arguments):
        return Reading(value=SIZES[fault](right(*arguments).value), source="a test")

    monkeypatch.setattr(torch_framework, "saved_bytes", wrong)
    results = measured("sdpa", "accuracy", "memory")
    assert "the count of saved bytes fails its calibration" in results["memory"].reason


@pytest.mark.parametrize("share", [2.0, 0.5, 0.0])
def test_ceilings_of_a_faulty_clock_are_refused(monkeypatch, share):
    def faulty(call, operations, samples):
        return [share * s + 1e-12 for s in right(call, operations, samples)]

    right = peaks._seconds
    monkeypatch.setattr(peaks, "_seconds", faulty)
    measurements = peaks.measure("cpu")
    assert {m.status for m in measurements} == {"refused"}
    assert all("the bandwidth fails its calibration" in m.reason for m in measurements)


def test_sound_instruments_are_believed():
    for instrument in ("clock", "memory", "saved", "profiler"):
        assert calibration.calibrated(instrument, torch_framework, "cpu").problem is None
    results = measured("sdpa", "accuracy", "latency", "training", "memory", "kernels")
    assert all(m.status == "ok" for m in results.values())
