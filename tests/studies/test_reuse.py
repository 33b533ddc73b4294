"""A cell of an earlier run stands in for the same cell, and only where it may."""

from dataclasses import replace

import pytest
from lasting_study import STAGE, Lasting

from assay import host
from assay.records import run as runs
from assay.records.schema import CELL_SECONDS, REUSED
from assay.studies import kconfig, plan
from assay.studies.cell import Cell, code_of, fingerprint
from assay.studies.stages import host as host_stage

BUSY = '    yield Measurement(metric=MACHINE_LOAD, value=9.0, unit="processes", reason="busy")\n'
REFUSED = '    yield Measurement(metric="a", value=None, unit="", status="refused", reason="no")\n'


@pytest.fixture
def lasting(tmp_path) -> Lasting:
    return Lasting(tmp_path)


def test_the_second_run_takes_over_and_says_so(lasting):
    first, _ = lasting.run()
    second, notes = lasting.run()
    third, _ = lasting.run()
    assert lasting.times_run == 1
    assert "0 of 1" in notes and any("reused" in n and first[0].run in n for n in notes)
    for records in (second, third):  # the remark names the run that measured it, however often
        measured, remark, end = records
        assert (measured.metric, measured.value, measured.time) == ("number", 1.0, first[0].time)
        assert remark.metric == REUSED and first[0].run in remark.reason
        assert (end.metric, end.value) == (CELL_SECONDS, 0.0)
        assert len({r.run for r in records} | {first[0].run}) == 2
    assert runs.load_records(lasting.folder / "results") == [*first, *second, *third]


def test_nothing_is_taken_over_unasked(lasting):
    lasting.run()
    lasting.run(reuse=False)
    assert lasting.times_run == 2


def test_other_code_is_measured(lasting):
    lasting.run()
    lasting.file.write_text(STAGE.replace("1.0", "2.0"))
    assert lasting.run()[0][0].value == 2.0


def test_another_environment_is_measured(lasting, monkeypatch):
    lasting.run()
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert REUSED not in {record.metric for record in lasting.run()[0]}
    assert REUSED in {record.metric for record in lasting.run()[0]}


@pytest.mark.parametrize("stage, cell", [
    ("host", Cell(name="peaks/cpu", subjects=("cpu",))),
    ("suite", Cell(name="suite/eager", subjects=("eager",), probes=("accuracy",))),
])  # fmt: skip
def test_the_framework_is_part_of_what_may_be_taken_over(stage, cell):
    code, here = code_of(stage, cell), host.inspect(commit=False)
    assert "torch" in code.packages and "assay/frameworks/torch/arrays.py" in code.files
    before = fingerprint(stage, cell, here, code)
    for package in ("torch", "triton", "python"):
        newer = replace(here, versions={**here.versions, package: "99.9"})
        assert fingerprint(stage, cell, newer, code) != before, package


def test_instruments_of_jax_count_with_its_version(monkeypatch):
    study = kconfig.load(None, ["IMPLEMENTATIONS=jax_xla", "STAGES=host", "DEVICE_CPU=y"])
    here = host.inspect(commit=False)
    (cell,) = [c for c in host_stage.cells(plan.on_device(study, here)) if "instr" in c.name]
    assert "assay/frameworks/jax/arrays.py" in code_of("host", cell).files
    monkeypatch.setattr(host_stage, "installed_version", lambda name: "99.9")
    (newer,) = [c for c in host_stage.cells(plan.on_device(study, here)) if "instr" in c.name]
    assert fingerprint("host", cell, here) != fingerprint("host", newer, here)


@pytest.mark.parametrize("before, after", [
    ('"time":"20', '"time":"19'),  # a century ago
    ('"host":"', '"host":"another'),
    ('"schema":1', '"schema":7'),
    ('"time":"20', '"time":"never '),
])  # fmt: skip
def test_what_is_old_or_strange_is_measured(lasting, before, after):
    lasting.run()
    lasting.rewrite(before, after)
    assert REUSED not in {record.metric for record in lasting.run()[0]}
    assert lasting.times_run == 2


def test_what_did_not_go_well_is_measured(lasting):
    lasting.file.write_text(STAGE + REFUSED)
    lasting.run()
    lasting.run()
    assert lasting.times_run == 2


def test_ceilings_of_a_busy_machine_are_taken_over_while_it_is_busy(lasting, monkeypatch):
    lasting.file.write_text(STAGE + BUSY)
    monkeypatch.setattr("os.getloadavg", lambda: (0.1, 0.1, 0.1))
    lasting.run()
    lasting.run()
    assert lasting.times_run == 2
    monkeypatch.setattr("os.getloadavg", lambda: (99.0, 99.0, 99.0))
    lasting.run()
    assert lasting.times_run == 2
