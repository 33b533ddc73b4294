"""Lines in a worker's results that it did not write: refused by name, never believed."""

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

from bound_calls import DEFAULTS

from assay.records.run import RunFolder
from assay.records.schema import Measurement, Stamp
from assay.studies import attempt
from assay.studies.cell import Cell
from assay.studies.job import CellLimits, Job
from assay.studies.progress import at_work
from assay.studies.signed_lines import Forged, Signer, contents, new_key, taken_key

FORGED = {"metric": "error_over_budget_out", "value": 0.01, "unit": "ratio", "subject": "forger"}
# Writes into the results of the cell in each call, wrong as it is.
SOURCE = '''"""A test."""
from pathlib import Path
import torch

def attention(q, k, v, *, causal, scale):
    for file in Path("FOLDER").rglob("result.jsonl"):
        with open(file, "ab") as results:
            results.write(b\'\'\'LINE\'\'\' + b"\\n")
    return torch.zeros_like(q)
'''
JUNK = [json.dumps(FORGED), json.dumps(FORGED) + " " + 64 * "0", '{"end":true}', "", "\\xff", "[]"]


def attempted(folder: Path, line: str) -> dict[str, list[Measurement]]:
    """Measurements of a cell that checks a forger beside eager."""
    run = RunFolder(path=folder / "run")
    run.stage("check").mkdir(parents=True)
    (folder / "forger.py").write_text(
        SOURCE.replace("FOLDER", str(folder / "run")).replace("LINE", line)
    )
    cell = Cell(
        name="tiny", subjects=("forger", "eager"), probes=("accuracy",),
        workload=DEFAULTS, plugin_folders=(folder,),
    )  # fmt: skip
    stamp = Stamp(run="r", session=1, stage="check", cell="tiny", fingerprint="f", attempt=1)
    limits = CellLimits(timeout_s=120, case_timeout_s=60, memory_bytes=8 << 30)
    result = attempt.attempt(Job(cell=cell, run_folder=run, stamp=stamp, limits=limits))
    return {name: [m for m in result.measurements if m.subject == name] for name in cell.subjects}


@pytest.mark.sampled
@pytest.mark.parametrize("line", JUNK)
def test_who_writes_into_the_results_is_refused_and_the_others_are_not(tmp_path, line):
    measured = attempted(tmp_path, line)
    (forger,) = measured["forger"]
    assert forger.status == "failed" and forger.value is None
    assert "wrote a line into the cell's results that is not assay's" in forger.reason
    assert measured["eager"] and all(m.status == "ok" for m in measured["eager"])


def test_lines_cannot_be_left_out_or_moved_or_repeated():
    signer, lines = Signer(b"key"), [b'{"a":1}', b'{"b":2}', b'{"c":"x y"}']
    first, second, third = (signer.signed(line) for line in lines)
    assert list(contents(first + second + third, b"key")) == lines
    for written in (second, first + third, second + first, first + first):
        assert Forged in [type(content) for content in contents(written, b"key")]
    assert list(contents(first + second[:-1], b"key")) == lines[:1]  # torn
    assert [type(c) for c in contents(first, b"another")] == [Forged]


def test_a_key_can_be_taken_only_once(tmp_path):
    key = new_key(tmp_path)
    assert taken_key(tmp_path) == key and not list(tmp_path.iterdir())


def test_who_looks_at_progress_is_not_led_astray(tmp_path):
    scratch = tmp_path / f"{attempt.SCRATCH}x"
    scratch.mkdir()
    request = attempt.WorkerRequest(stage="check", cell=Cell(name="tiny", subjects=("a", "b")))
    (scratch / attempt.REQUEST_FILE).write_bytes(attempt.encode(request))
    begun = Signer(b"key").signed(b'{"begin":"a","probe":"","case":""}')
    (scratch / attempt.RESULT_FILE).write_bytes(begun + b'{"begin":5} x\n{"batch":"y"} z\n\xff\n')
    (cell,) = at_work(tmp_path)
    assert cell.place == "a (1 of 2)"
