"""Several processes on one store, processes that are killed, and processes that fork."""

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from capture_calls import tensors_of
from new_process import environment
from numpy_calls import equal

from assay.captures import tensor_files
from assay.captures.recording import Recording
from assay.captures.store import Store
from assay.errors import BadInput

HERE = Path(__file__).parent


def start(path, run, *, count, values=64) -> subprocess.Popen:
    command = [sys.executable, HERE / "capture_calls.py", *map(str, (path, run, count, values))]
    return subprocess.Popen(
        command,
        env=environment(HERE),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def begin(*processes) -> None:
    for process in processes:
        assert process.stdout.readline() == b"ready\n", process.stderr.read().decode()
    for process in processes:
        process.stdin.close()
        process.stdin = None


def check_whole(store: Store, *, values: int) -> dict[str, int]:
    """Every listed record reads back as what was captured; how many each run has."""
    counts: dict[str, int] = {}
    for record in store.manifest().records:
        assert equal(store.read(record), tensors_of(record.key.run, record.key.step, values))
        counts[record.key.run] = counts.get(record.key.run, 0) + 1
    return counts


def test_two_processes_of_a_thousand_captures_each(tmp_path):
    path = tmp_path / "store"
    processes = [start(path, run, count=1000) for run in ("a", "b")]
    begin(*processes)
    for process in processes:
        out, err = process.communicate(timeout=6000)
        assert process.returncode == 0, err.decode()
        assert json.loads(out) == [1000, {}, 0]
    store = Store.open(path)
    manifest = store.manifest()
    assert len({record.name for record in manifest.records}) == 2000
    assert len({record.file for record in manifest.records}) == 2000
    files = {str(f.relative_to(path)) for f in path.glob("records/*/*.safetensors")}
    assert files == {record.file for record in manifest.records}
    assert len(list(path.glob("shared/*"))) == 3, "a mask is there once, whoever met it first"
    assert check_whole(store, values=64) == {"a": 1000, "b": 1000}
    assert {end.run: end.records for end in manifest.ends} == {"a": 1000, "b": 1000}
    assert not manifest.torn_bytes


def wait_for_record(path: Path, run: str) -> None:
    """Until a record of the run is listed, however busy this machine is."""
    wanted, deadline = f'"kind":"record","key":{{"run":"{run}"'.encode(), time.monotonic() + 600
    while wanted not in (path / "manifest.jsonl").read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.parametrize("kills", [8, pytest.param(20, marks=pytest.mark.slow)])
def test_a_process_is_killed_at_many_moments(tmp_path, kills):
    """Large records, so that kills fall into the writing of files and of the manifest."""
    path, values = tmp_path / "store", 30_000
    moments = random.Random(5)
    ready = [start(path, f"run{number}", count=0, values=values) for number in range(2)]
    for number in range(kills):
        victim = ready.pop(0)
        ready.append(start(path, f"run{number + 2}", count=0, values=values))
        begin(victim)
        if number % 4:  # the others are killed before, or while, they write their first
            wait_for_record(path, f"run{number}")
        time.sleep(moments.uniform(0.0, 0.1))
        victim.kill()
        victim.communicate()
    last = start(path, "last", count=5, values=values)
    begin(last)
    assert json.loads(last.communicate(timeout=600)[0]) == [5, {}, 0]
    for process in ready:
        process.kill()
        process.communicate()
    store = Store.open(path)
    counts = check_whole(store, values=values)
    assert counts.pop("last") == 5
    assert len(counts) >= 3 * kills // 4, "kills came too early to show anything"
    assert [end.run for end in store.manifest().ends] == ["last"]
    listed = {r.file for r in store.manifest().records}
    for file in path.glob("records/*/*.safetensors"):  # also those that no line came to list
        assert str(file.relative_to(path)) in listed or tensor_files.read(file)


def test_a_run_is_not_taken_twice(tmp_path):
    store = Store.create(tmp_path)
    with Recording(store, run="mine"):
        pass
    with (
        pytest.raises(BadInput, match="already has run mine of rank 0"),
        Recording(store, run="mine"),
    ):
        pass
    with Recording(store, run="mine", rank=1):
        pass


@pytest.mark.parametrize("run", ["../out", "a/b", ".hidden", "x" * 65, "a b"])
def test_a_run_is_named_so_that_it_stays_in_the_store(tmp_path, run):
    store = Store.create(tmp_path / "s")
    with pytest.raises(BadInput, match="a run is named by"), Recording(store, run=run):
        pass
    assert not list(tmp_path.glob("out*"))


FORKS = """
import os, sys
from pathlib import Path
from numpy_calls import call, captured_call
from assay.errors import BadInput
from assay.captures.store import Store
from assay.captures.recording import Recording

with Recording(Store.create(Path(sys.argv[1]))) as recording:
    recording.put(captured_call(recording, call(), step=0))
    child = os.fork()
    if child == 0:
        wanted = recording.wants(step=1, layer=0, site="x")
        try:
            recording.put(captured_call(recording, call(), step=1))
            answer = 1
        except BadInput as error:
            answer = 0 if "forked" in str(error) and not wanted else 2
        recording.close()
        os._exit(answer)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    recording.put(captured_call(recording, call(), step=2))
"""


def test_a_forked_child_does_not_write_into_its_parents_run(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FORKS, str(tmp_path / "s")],
        env=environment(HERE),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert "this one captures nothing" in done.stderr
    manifest = Store.open(tmp_path / "s").manifest()
    assert [record.key.step for record in manifest.records] == [0, 2]
    assert len(manifest.ends) == 1
