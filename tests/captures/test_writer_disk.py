"""Disks that are full or not to be written: the model goes on, what is listed is whole."""

import json
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from new_process import environment
from numpy_calls import call, captured_call, equal

from assay.captures.recording import Recording
from assay.captures.recording.captured_call import LoadedTensors
from assay.captures.recording.options import CaptureOptions
from assay.captures.store import Store

HERE = Path(__file__).parent


def run(folder: Path, means: str, *, mounting: str) -> subprocess.CompletedProcess:
    """Run `capture_full_disk.py` on a file system of its own."""
    probe = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs "$0"', "/mnt"]
    done = subprocess.run(probe, capture_output=True)
    if done.returncode:
        pytest.skip(f"a file system of its own needs root: {done.stderr.decode().strip()}")
    script = f'set -e; folder="$1"; shift; {mounting}; exec "$@"'
    program = [sys.executable, str(HERE / "capture_full_disk.py"), str(folder), means]
    command = ["unshare", "--mount", "sh", "-c", script, "sh", str(folder), *program]
    done = subprocess.run(
        command, env=environment(HERE), capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return done


def test_a_full_disk_costs_records_and_nothing_else(tmp_path):
    done = run(tmp_path, "ballast", mounting='mount -t tmpfs -o size=1600k tmpfs "$folder"')
    report = json.loads(done.stdout)
    full = report["full"]
    assert 1 <= full["records"] < 40
    (reason,) = full["dropped"]
    assert reason == "could not be written: No space left on device"
    assert full["records"] + full["dropped"][reason] == 40
    assert report["later"] == {"records": 3, "dropped": {}, "unlisted": None}
    assert report["whole"] and report["listed"] == full["records"] + 3
    assert not report["left"] and not report["unlisted_files"]
    assert done.stderr.count("No space left on device") == 1, "reported once"


def test_a_read_only_store_is_read_and_not_written(tmp_path):
    program = f'"{sys.executable}" "{HERE}/capture_full_disk.py" "$folder" make'
    mounting = f'mount -t tmpfs tmpfs "$folder"; {program}; mount -o remount,ro "$folder"'
    report = json.loads(run(tmp_path, "nothing", mounting=mounting).stdout)
    assert report["readable"] == [True, True]
    assert "the disk is read-only" in report["message"]


def test_a_limit_on_files_is_told_and_does_not_reach_the_model(tmp_path, capsys):
    store = Store.create(tmp_path / "s")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Recording(store, options=CaptureOptions(wait_s=600)) as recording:
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
        try:
            for step, values in enumerate((64, 80_000, 64)):
                recording.put(captured_call(recording, call(values=values), step=step))
            recording.flush()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    report = recording.report()
    assert report.records == 2
    assert report.dropped == {"could not be written: File too large": 1}
    assert [record.key.step for record in store.manifest().records] == [0, 2]
    assert not [file for file in store.path.glob("records/*/.*")]
    capsys.readouterr()


def test_a_manifest_that_cannot_grow_takes_its_files_back(tmp_path, capsys):
    """Files that nothing lists would be lost room; the next batch is whole again."""
    store = Store.create(tmp_path / "s")
    manifest = store.path / "manifest.jsonl"
    with Recording(store, options=CaptureOptions(wait_s=600)) as recording:
        recording.put(captured_call(recording, call(), step=0, phase="decode"))
        recording.flush()
        aside = manifest.rename(store.path / "aside")
        manifest.mkdir()
        recording.put(captured_call(recording, call(), step=1, phase="decode"))
        recording.flush()
        manifest.rmdir()
        aside.rename(manifest)
        recording.put(captured_call(recording, call(), step=2, phase="decode"))
    report = recording.report()
    assert report.records == 2
    assert report.dropped == {"could not be written: Is a directory": 1}
    first, last = store.manifest().records
    assert (first.key.step, last.key.step) == (0, 2)
    assert last.tensors["k"].delta is None, "the record before it is not listed"
    assert len(list(store.path.glob("records/*/*"))) == 2
    assert store.read(last).keys() == {"q", "k", "v"}
    capsys.readouterr()


def test_a_record_told_from_one_that_was_not_written_goes_with_it(tmp_path, capsys):
    """All of them are prepared before the first file fails, so the later ones count on it."""
    store = Store.create(tmp_path / "s")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    event = threading.Event()
    wanted = {}
    with Recording(store, options=CaptureOptions(wait_s=600)) as recording:
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
        try:
            for step in range(8):
                kv = {n: t for n, t in call(seed=step // 6).items() if n != "q"}
                wanted[step] = call(values=80_000 if step == 2 else 64) | kv

                def load(tensors=wanted[step]):
                    assert event.wait(timeout=600)
                    return LoadedTensors(tensors=tensors)

                recording.put(
                    captured_call(recording, wanted[step], step=step, phase="decode", load=load)
                )
            event.set()
            recording.flush()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        recording.put(captured_call(recording, wanted[7], step=8, phase="decode"))
    report = recording.report()
    assert report.dropped == {"could not be written: File too large": 4}  # 2, and its deltas 3 to 5
    records = store.manifest().records
    assert [record.key.step for record in records] == [0, 1, 6, 7, 8]
    for record in records:
        assert equal(store.read(record), wanted[min(record.key.step, 7)])
    assert records[-1].tensors["k"].delta is None, "after trouble it begins anew"
    on_disk = sum(file.stat().st_size for file in store.path.glob("records/*/*"))
    assert report.bytes == on_disk and len(list(store.path.glob("records/*/*"))) == 5
    capsys.readouterr()
