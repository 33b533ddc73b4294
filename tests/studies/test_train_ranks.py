"""Training in several processes as a study runs it: what ends a rank ends the cell with its reason,
and whatever ends the study leaves no process behind."""

import os
import signal
from pathlib import Path

import pytest
from study_process import StudyProcess, is_alive, wait_until

pytest.importorskip("torch")

from training_study import LONG, batches, of, settings, state

from assay.errors import BadInput
from assay.host import inspect
from assay.studies import kconfig
from assay.studies.cell import fingerprint
from assay.studies.stages import train

RANK, AGENT = "assay.studies.rank", "assay.studies.ranks"
TWO = {"MODELS": "GPT2", "TRAIN_SEEDS": "0", "TRAIN_PROCESSES": 2, "TRAIN_STEPS": LONG}


def descendants(pid: int) -> dict[int, list[str]]:
    """The command of every process that a process started, or that one of these did."""
    parents, commands = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int(
                (folder / "stat").read_text().rpartition(")")[2].split()[1]
            )
            commands[int(folder.name)] = (folder / "cmdline").read_text().split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
    below, size = {pid}, 0
    while len(below) > size:
        size = len(below)
        below |= {child for child, parent in parents.items() if parent in below}
    return {child: commands[child] for child in below - {pid}}


def rank_of(pid: int) -> int:
    entries = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return next(int(entry[5:]) for entry in entries if entry.startswith("RANK="))


@pytest.fixture
def study(tmp_path) -> StudyProcess:
    return StudyProcess(folder=tmp_path)


class Running:
    """A study in the middle of its training on two ranks, with all its processes."""

    def __init__(self, study: StudyProcess, text: Path, **changes: object) -> None:
        chosen = settings(text, **{**TWO, "TRAIN_PARALLEL": "ddp", **changes})
        self.process = study.start(*study.run_arguments("models", "train", **chosen))
        wait_until(lambda: self.process.poll() is not None or batches(study) > 2, "two batches")
        assert self.process.poll() is None, study.stderr
        self.all = descendants(self.process.pid)
        self.ranks = {rank_of(pid): pid for pid, words in self.all.items() if RANK in words}
        assert sorted(self.ranks) == [0, 1]
        assert [words for words in self.all.values() if AGENT in words]

    def require_none_left(self) -> None:
        wait_until(lambda: not any(map(is_alive, self.all)), "the end of every process")


@pytest.mark.slow
def test_a_killed_rank_ends_the_cell_with_its_reason(study, text) -> None:
    running = Running(study, text)
    os.kill(running.ranks[1], signal.SIGKILL)
    assert study.finish(running.process) == 1
    (end,) = of(study, "GPT2/s0", "final_val_loss")
    assert end.status == "failed"
    assert "rank 1 of 2: the process was ended by SIGKILL" in end.reason
    assert "Traceback" not in study.stderr
    running.require_none_left()
    run = study.run_json
    assert (run.devices, run.batch) == (["cpu"], [4])


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "processes"), [("ddp", 1), ("fsdp", 4)])
def test_a_run_whose_rank_was_killed_goes_on_in_other_processes_and_ends_as_one_does(
    study, text, tmp_path, kind, processes
) -> None:
    shorter = {"TRAIN_STEPS": 40, "TRAIN_DROPOUT": "0"}
    running = Running(study, text, TRAIN_PARALLEL=kind, **shorter)
    os.kill(running.ranks[0], signal.SIGTERM)
    assert study.finish(running.process) == 1
    others = study.start("resume", "--trust-plugins", "--processes", str(processes))
    assert study.finish(others) == 0, study.stderr
    one = StudyProcess(folder=tmp_path / "one")
    one.folder.mkdir()
    chosen = settings(text, **{**TWO, **shorter, "TRAIN_PROCESSES": 1})
    assert one.run("models", "train", **chosen) == 0, one.stderr
    for metric in ("train_loss", "val_loss", "final_val_loss"):
        pairs = zip(of(study, "GPT2/s0", metric), of(one, "GPT2/s0", metric), strict=True)
        for several, alone in pairs:
            assert several.value == pytest.approx(alone.value, abs=1e-4)
            assert several.data["tokens"] == alone.data["tokens"]
    (end,) = of(study, "GPT2/s0", "final_val_loss")
    assert (end.data["processes"], end.data["parallel"]) == (processes, kind)
    assert {r.attempt for r in of(study, "GPT2/s0", "train_loss")} == {2}
    assert state(study, "GPT2/s0").settings_digest == state(one, "GPT2/s0").settings_digest


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_what_ends_the_study_ends_its_ranks(study, text, number) -> None:
    running = Running(study, text)
    os.kill(running.process.pid, number)
    study.finish(running.process)
    running.require_none_left()


@pytest.mark.slow
@pytest.mark.parametrize("victim", [AGENT, "cell"])
def test_an_agent_or_a_cell_that_is_killed_takes_its_ranks_with_it(study, text, victim) -> None:
    running = Running(study, text)
    (agent,) = (pid for pid, words in running.all.items() if AGENT in words)
    parent = int(Path(f"/proc/{agent}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(agent if victim == AGENT else parent, signal.SIGKILL)
    assert study.finish(running.process) == 1
    running.require_none_left()
    (end,) = (r for r in study.records("train") if r.subject == "GPT2" and r.status == "failed")
    assert "SIGKILL" in end.reason


@pytest.mark.slow
@pytest.mark.early
def test_a_cell_that_takes_too_long_takes_its_ranks_with_it(study, text) -> None:
    running = Running(study, text, CELL_TIMEOUT_S=60, TRAIN_STEPS=10**8)
    assert study.finish(running.process) == 1
    assert [r for r in study.records("train") if r.status == "timeout"]
    running.require_none_left()


def test_a_cell_is_the_same_in_any_number_of_processes(text) -> None:
    """So that a resumed study goes on from its state."""
    host = inspect(commit=False)
    marks = set()
    for kind, count in (("none", 1), ("ddp", 2), ("fsdp", 4)):
        chosen = settings(text, MODELS="GPT2", TRAIN_PARALLEL=kind, TRAIN_PROCESSES=count)
        study = kconfig.load(None, [f"{name}={value}" for name, value in chosen.items()])
        marks |= {fingerprint("train", cell, host) for cell in train.cells(study)}
    assert len(marks) == len(study.train_seeds)


def test_processes_that_do_not_divide_the_batch_are_refused_before_anything_is_run(
    text,
) -> None:
    chosen = settings(text, MODELS="GPT2", TRAIN_PARALLEL="ddp", TRAIN_PROCESSES=3)
    with pytest.raises(BadInput, match="do not divide over TRAIN_PROCESSES=3"):
        train.cells(kconfig.load(None, [f"{name}={value}" for name, value in chosen.items()]))
