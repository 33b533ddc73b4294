"""The campaign sees what it is made to see: readers with planted faults, and real ones without."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from assay.errors import BadInput
from campaign import mutations
from campaign.__main__ import main
from campaign.formats import FileFormat, formats
from campaign.hostile import CANARY
from campaign.mutations import made, read_inputs
from campaign.mutators import mutated
from campaign.spread import Effort

ALTERED = 40  # inputs; of these a planted reader falls over every one that is not as it was


def _is_whole(folder):
    return (folder / "a.json").read_bytes() == b'{"a": [1, 2], "b": "x"}'


def refuses(folder):
    if not _is_whole(folder):
        raise BadInput("not the one that was written")


def raises(folder):
    if not _is_whole(folder):
        json.loads((folder / "a.json").read_bytes())["a"][1]


def hangs(folder):
    if not _is_whole(folder):
        time.sleep(60)


def eats_memory(folder):
    if not _is_whole(folder):
        assert b"x" * (5 << 28)


def dies(folder):
    if not _is_whole(folder):
        os.kill(os.getpid(), signal.SIGKILL)


def executes(folder):
    if not _is_whole(folder):
        subprocess.run(["true"])


def evaluates(folder):
    (folder / "code.py").write_text("pass")
    if not _is_whole(folder):
        exec(compile("pass", folder / "code.py", "exec"), {})


def writes_outside(folder):
    (folder / "mine").write_text("here it may")
    if not _is_whole(folder):
        (folder.parent / "x").write_text("")


def strays(folder):
    if not _is_whole(folder):
        (folder / ".." / ".." / CANARY).read_bytes()


PLANTED = {
    raises: "traceback",
    hangs: "hang",
    eats_memory: "memory",
    dies: "crashed",
    executes: "executed",
    evaluates: "executed",
    writes_outside: "written",
    strays: "strayed",
}


@pytest.fixture
def planted(tmp_path):
    def make(folder):
        (folder / "a.json").write_text('{"a": [1, 2], "b": "x"}')

    def results(read, inputs, **options):
        form = FileFormat(name="planted", make=make, read=read)
        return read_inputs(form, made(form, tmp_path / "sample"), range(inputs), seed=1, **options)

    return results


@pytest.mark.parametrize("read", PLANTED, ids=lambda read: read.__name__)
def test_a_reader_with_a_fault_is_caught(planted, read):
    result = planted(
        read,
        inputs=1 if read in (hangs, eats_memory, dies) else ALTERED,
        hang_s=0.5 if read is hangs else 10.0,
    )
    assert result.ended[PLANTED[read]], result.ended
    assert set(result.ended) <= {PLANTED[read], "read"}
    finding = next(iter(result.findings.values()))
    assert finding["finding"] == PLANTED[read] and finding["input"] is not None
    assert finding["repeat"].startswith("python -m campaign mutations --formats planted --seed 1")


def test_a_reader_that_refuses_is_no_finding(planted):
    result = planted(refuses, inputs=ALTERED)
    assert not result.findings and result.ended["refused"] > ALTERED // 2


def test_inputs_are_the_same_for_the_same_seed():
    for name in ("a.json", "a.toml"):
        first, again = (mutated(name, b'{"a": 1}', random.Random("1")) for _ in range(2))
        assert first == again


def test_a_few_inputs_of_a_format_and_their_lines(tmp_path, capsys):
    out = tmp_path / "lines"
    assert main(["mutations", "--formats", "claim", "--inputs", "50", "--out", str(out)]) == 0
    (line,) = [json.loads(text) for text in out.read_text().splitlines()]
    assert (line["format"], line["inputs"], line["findings"]) == ("claim", 50, 0)
    assert line["refused"] > line["read"] > 0


def test_more_processes_find_the_same(monkeypatch):
    """Inputs in three groups; how they are divided changes no count and no finding."""

    def make(folder):
        (folder / "a.json").write_text('{"a": [1, 2], "b": "x"}')

    form = FileFormat(name="planted", make=make, read=raises)
    monkeypatch.setattr(mutations, "formats", lambda: {form.name: form})
    monkeypatch.setattr(mutations, "CHILD_INPUTS", ALTERED // 3)
    runs = []
    for processes in (1, 3):
        lines = []
        assert not mutations.run(Effort(seed=2, count=ALTERED, processes=processes), lines.append)
        runs.append([{**line, "seconds": None} for line in lines])
    assert runs[0] == runs[1]
    assert runs[0][-1]["inputs"] == ALTERED and runs[0][-1]["distinct"] == len(runs[0]) - 1 > 1


def test_a_format_that_cannot_be_written_here_is_named(monkeypatch):
    def make(folder):
        import a_package_that_nobody_has  # noqa: F401

    form = FileFormat(name="planted", make=make, read=raises)
    monkeypatch.setattr(mutations, "formats", lambda: {form.name: form})
    lines = []
    assert mutations.run(Effort(count=10), lines.append)
    (line,) = lines
    assert "a_package_that_nobody_has" in line["unavailable"] and "inputs" not in line


@pytest.mark.slow  # a process of its own: what it forks must have no threads of other tests
@pytest.mark.early
def test_no_reader_falls_over(tmp_path):
    """Every format for a few seconds; each finding says how to repeat it."""
    command = [sys.executable, "-m", "campaign", "mutations", "--minutes", "1", "--seed", "7"]
    ended = subprocess.run(command, capture_output=True, text=True)
    lines = [json.loads(text) for text in ended.stdout.splitlines()]
    findings = [line for line in lines if "finding" in line]
    assert not findings, [(f["reason"], f["repeat"]) for f in findings]
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert {line["format"] for line in lines} == set(formats())
