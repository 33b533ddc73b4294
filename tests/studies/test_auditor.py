"""What a cell cannot have measured is refused before it is on record."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

pytest.importorskip("torch")

from study_process import StudyProcess

from assay.records.run import RunFolder
from assay.records.schema import Measurement, Stamp
from assay.studies.auditor import Auditor
from assay.studies.cell import Cell
from assay.studies.job import CellLimits, CellResult, Job
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import identity

SPEC = WorkloadSpec(
    batch=1, heads=8, kv_heads=8, query_length=1024, key_length=1024, head_dim=64, dtype="float32",
    causal=True, seed=0,
)  # fmt: skip


def test_a_clock_that_repeats_itself_leaves_no_time_and_no_ratio(tmp_path):
    study = StudyProcess(folder=tmp_path)
    study.run(
        "bench", ENGINE="repeats", IMPLEMENTATIONS="eager,sdpa", LENGTHS="32", HEADS="1/1",
        PROBES="accuracy,gradients,latency,training", ROUNDS="6",
    )  # fmt: skip
    records = study.records("bench")
    forward = [r for r in records if r.metric == "latency_ms"]
    assert {r.subject for r in forward} == {"eager", "sdpa"}
    assert all(r.status == "refused" and r.value is None and not r.samples for r in forward)
    assert all("not believed (equal samples)" in r.reason for r in forward)
    assert all(r.status == "ok" for r in records if r.metric == "training_ms")


@dataclass
class Engine:
    """Gives a ceiling each time it is asked, and counts how often it was."""

    bandwidth: float
    cells: list[str] = field(default_factory=list)

    def run(self, jobs):
        for job in jobs:
            self.cells.append(job.cell.name)
            yield _result(job.cell, [_ceiling(self.bandwidth)])


def _ceiling(value: float) -> Measurement:
    return Measurement(subject="cpu", metric="read_bandwidth", value=value, unit="GB/s")


def _cached(value: float) -> Measurement:
    return Measurement(subject="cpu", metric="read_bandwidth.64", value=value, unit="GB/s")


def _result(cell: Cell, measurements: list[Measurement]) -> CellResult:
    limits = CellLimits(timeout_s=1.0, case_timeout_s=1.0, memory_bytes=1)
    about = {"run": "a run", "session": 1, "fingerprint": "", "attempt": 1}
    stamp = Stamp(stage="bench", cell=cell.name, **about)
    job = Job(cell=cell, run_folder=RunFolder(path=Path()), stamp=stamp, limits=limits)
    return CellResult(job=job, measurements=measurements, host="", seconds=1.0)


def _timed() -> CellResult:
    """1 GB in 10 ms."""
    about = {"subject": "mine", "workload": identity(SPEC)}
    samples = [10.0, 10.1, 10.2, 10.3, 10.4]
    times = Measurement(metric="latency_ms", value=10.2, unit="ms", samples=samples, **about)
    size = Measurement(metric="forward_bytes", value=1e9, unit="B", **about)
    return _result(Cell(name="a cell", workload=SPEC), [times, size])


@pytest.mark.parametrize(("again", "status"), [(20.0, "refused"), (110.0, "ok")])
def test_a_ceiling_is_measured_again_before_a_number_is_refused(again, status):
    """100 GB/s are too many for one that was 15 GB/s on a busy machine, and not for 110."""
    engine = Engine(bandwidth=again)
    auditor = Auditor(engine, [])
    auditor._ceilings = [_ceiling(15.0), _cached(30.0)]
    for _ in range(2):
        believed, _ = auditor.believed(_timed()).measurements
        assert believed.status == status
    assert engine.cells == ["peaks/cpu"]


def test_what_is_faster_than_the_machine_does_not_hold(tmp_path):
    """A forward pass that takes no time at all, by a clock that its engine has made faster."""
    study = StudyProcess(folder=tmp_path)
    code = study.run(
        "host", "bench", ENGINE="hurried", IMPLEMENTATIONS="eager", LENGTHS="256", HEADS="4/4",
        PROBES="latency", ROUNDS="6",
    )  # fmt: skip
    (forward,) = [r for r in study.records("bench") if r.metric == "latency_ms"]
    assert forward.status == "refused" and forward.value is None
    assert "not believed (faster than" in forward.reason
    assert code == 1
