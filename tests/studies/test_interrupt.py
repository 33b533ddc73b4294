"""Stopping a study: politely, by a kill, or by starting a second one on the same run."""

import ctypes
import os
import signal
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from study_process import StudyProcess, is_alive, wait_until

from assay.errors import CANNOT_RUN_HERE, INTERRUPTED

SLEEP = {"ASSAY_TEST_NAP": "sleep"}
SLEEP_WITH_CHILD = {"ASSAY_TEST_NAP": "sleep with child"}


@pytest.fixture
def study(tmp_path) -> StudyProcess:
    return StudyProcess(folder=tmp_path)


@contextmanager
def running(study: StudyProcess, *arguments: str, **environment: str):
    """A study's process, ended with the test however the test ends."""
    process = study.start(*arguments, **environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("request_to_end", [signal.SIGINT, signal.SIGTERM])
def test_a_polite_request_ends_cleanly_and_the_rest_is_done_later(study, request_to_end):
    with running(study, *study.run_arguments("nap"), **SLEEP_WITH_CHILD) as process:
        study.wait_for("child")
        process.send_signal(request_to_end)
        assert study.finish(process) == INTERRUPTED
    assert not any(is_alive(pid) for pid in study.processes()), "a process was left behind"
    assert f"go on with: assay study resume {study.run_folder.path}" in study.stderr
    assert "Traceback" not in study.stderr
    assert study.done("nap") is None
    assert list(study.ends("nap")) == ["before"]
    assert study.resume() == 0
    assert study.diary() == ["before", "nap", "child", "nap", "after"]
    assert {end.attempt for end in study.ends("nap").values()} == {1}
    assert study.done("nap").status == "ok"


@pytest.mark.slow
def test_done_is_gone_while_a_stage_is_being_mended(study):
    """Otherwise a kill in the meantime would leave the earlier result looking current."""
    assert study.run("nap", env={"ASSAY_TEST_NAP": "fail"}) == 1
    assert study.done("nap").status == "failed"
    with running(study, "resume", "--trust-plugins", **SLEEP) as process:
        wait_until(lambda: study.diary().count("nap") == 2, "the second attempt")
        assert study.done("nap") is None
        process.send_signal(signal.SIGTERM)
        assert study.finish(process) == INTERRUPTED
    assert study.done("nap") is None
    assert study.resume() == 0
    assert study.ends("nap")["nap"].attempt == 2
    assert study.done("nap").status == "ok"


def test_a_second_process_on_a_run_is_refused(study):
    with running(study, *study.run_arguments("nap"), **SLEEP) as process:
        study.wait_for("nap")
        before = study.run_json
        assert study.resume() == CANNOT_RUN_HERE
        assert f"is being run by process {process.pid}" in study.stderr
        assert study.run_json == before
        assert process.poll() is None
        assert study.diary() == ["before", "nap"]
    assert study.resume() == 0
    assert study.diary() == ["before", "nap", "nap", "after"]


def test_a_cell_ends_with_the_study_that_is_killed(study):
    with running(study, *study.run_arguments("nap"), **SLEEP) as process:
        study.wait_for("nap")
        worker = study.processes()[-1]
        assert is_alive(worker)
        process.kill()
        process.wait()
    time.sleep(1)
    assert not is_alive(worker)
    assert study.done("nap") is None
    assert study.resume() == 0


def children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


@contextmanager
def adopting_orphans():
    """As under systemd or an init of a container: orphans get a parent that is not process 1."""
    set_child_subreaper = 36
    ctypes.CDLL(None).prctl(set_child_subreaper, 1)
    try:
        yield
    finally:
        ctypes.CDLL(None).prctl(set_child_subreaper, 0)


def test_a_cell_that_was_just_starting_ends_with_the_study_too(study):
    """The worker asked whether its parent is now process 1; where orphans go to another process,
    one that was killed in the worker's first tenth of a second left the cell running."""
    with adopting_orphans(), running(study, *study.run_arguments("nap"), **SLEEP) as process:
        study.wait_for("before")
        started = time.monotonic()
        worker = None
        while worker is None:
            assert time.monotonic() - started < 300
            forks = [fork for server in children(process.pid) for fork in children(server)]
            worker = next((pid for pid in forks if pid not in study.processes()), None)
        os.kill(worker, signal.SIGSTOP)  # a fork is at its cell's code within milliseconds
        if worker in study.processes():
            pytest.skip("too busy here: the worker was at its cell before it could be stopped")
        process.kill()
        process.wait()
        try:
            wait_until(lambda: not is_alive(worker), "the worker's end")
            assert "nap" not in study.diary()
            assert study.done("nap") is None
        finally:
            if is_alive(worker):
                os.kill(worker, signal.SIGKILL)
            with suppress(ChildProcessError):  # the server may have collected it before its end
                os.waitpid(worker, 0)
