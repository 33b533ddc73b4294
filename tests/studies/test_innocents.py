"""Faults of a peer, a stage or the machine, which no subject is blamed for."""

import msgspec
import pytest
from study_process import StudyProcess

from assay.studies import attempt
from assay.studies.cell import Cell
from assay.studies.signed_lines import Signer
from assay.studies.worker_output import WorkerOutput, read
from assay.subjects.outcome import Begin

TIMEOUT_S = 60


@pytest.fixture(scope="module")
def stopped(tmp_path_factory) -> tuple[StudyProcess, int, str]:
    """A study on a full disk, its exit code and its last words; then it is resumed."""
    study = StudyProcess(folder=tmp_path_factory.mktemp("innocents"))
    code = study.run("innocents", CELL_TIMEOUT_S=TIMEOUT_S, env={"ASSAY_TEST_FULL": "1"})
    words, before = study.stderr, set(study.ends("innocents"))
    assert "fills_the_disk" not in before and len(before) == 3
    study.resume()
    return study, code, words


def turns(study: StudyProcess, cell: str) -> dict[str, str]:
    records = [r for r in study.records("innocents") if r.cell == cell and r.subject]
    return {record.subject: record.status for record in records}


def test_a_full_disk_stops_the_study_in_plain_words(stopped):
    _, code, words = stopped
    assert code == 2
    assert "Traceback" not in words
    assert "assay: fills_the_disk could not write, so nothing is recorded of it" in words
    assert "free some space and go on with: assay study resume" in words


def test_after_a_full_disk_the_study_goes_on_and_nobody_was_blamed(stopped):
    study, _, _ = stopped
    assert turns(study, "fills_the_disk") == {"first": "ok", "fills_the_disk": "ok"}
    assert study.ends("innocents")["fills_the_disk"].attempt == 1


def test_a_thread_that_goes_on_costs_nobody_a_result(stopped):
    """It kept the process alive, and the cell, with all its results, was a timeout."""
    study, _, _ = stopped
    assert turns(study, "leaves_a_thread") == {"first": "ok", "leaves_a_thread": "ok"}
    end = study.ends("innocents")["leaves_a_thread"]
    assert end.status == "ok" and end.value < TIMEOUT_S


def test_junk_among_results_fails_who_wrote_it_and_nobody_else(stopped):
    """The study ended with a traceback."""
    study, _, _ = stopped
    assert turns(study, "writes_junk") == {"first": "ok", "writes_junk": "failed"}
    assert "is not assay's" in study.ends("innocents")["writes_junk"].reason


def test_a_cell_at_a_stranger_ends_with_a_reason(stopped):
    """Its subjects were tried alone, each came to the stranger, and was tried alone for ever."""
    study, _, _ = stopped
    assert turns(study, "names_a_stranger") == {"nobody": "failed"}
    reason = study.ends("innocents")["names_a_stranger"].reason
    assert "ended by SIGABRT; it was at 'nobody', which is no subject of this cell" in reason


def test_a_crash_in_a_probe_that_is_not_the_cells_ends_it():
    cell = Cell(name="c", subjects=("a",), probes=("accuracy", "gradients"))
    progress = WorkerOutput(measurements=[], at=Begin("a", "nothing", ""), ended=False)
    after = attempt._after_case(cell, progress, "failed", "it crashed", stalled=False)
    assert not after.rest
    assert {m.metric: m.status for m in after.measurements} == {
        "nothing": "failed",
        "accuracy": "skipped",
        "gradients": "skipped",
    }


JUNK = (
    *(b"junk", b"[]", b"3", b"null", b'"begin"', b"\xff\xfe", b"", b"[" * 100_000),
    *(b'{"begin": "a"}', b'{"begin": 1, "probe": "", "case": ""}'),
    b'{"metric": "m", "value": NaN, "unit": ""}',
    b'{"metric": "m", "value": null, "unit": ""}',
)


@pytest.mark.parametrize("line", JUNK)
def test_a_line_that_is_not_the_workers_is_a_problem(tmp_path, line):
    file = tmp_path / "result.jsonl"
    begin = msgspec.json.encode({"begin": "a", "probe": "", "case": ""})
    sign = Signer(b"key").signed
    file.write_bytes(sign(begin) + sign(line) + sign(b'{"end": true}'))
    progress = read(file, b"key")
    assert progress.problem.startswith("a line of its results cannot be read")
    assert not progress.forged
    assert progress.at == Begin("a") and not progress.ended
