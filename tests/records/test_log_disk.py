"""Disks that are full, limited or not to be written: the log is as before and the user is told."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from made_records import batch, contents, written
from new_process import environment

from assay.errors import BadInput
from assay.records.durable import write_atomically
from assay.records.log import read

HERE = Path(__file__).parent
ENVIRONMENT = environment(HERE)


def fill_disk(folder: Path, means: str, *, mounting: str = ""):
    """What `fill_disk.py` found, after `mounting` where it needs a file system of its own."""
    command = [sys.executable, str(HERE / "fill_disk.py"), str(folder), means]
    if mounting:
        script = f'set -e; folder="$1"; shift; {mounting}; exec "$@"'
        command = ["unshare", "--mount", "sh", "-c", script, "sh", str(folder), *command]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def needs_mounting():
    probe = 'mount -t tmpfs tmpfs "$0"'
    done = subprocess.run(["unshare", "--mount", "sh", "-c", probe, "/mnt"], capture_output=True)
    if done.returncode:
        pytest.skip(f"a file system of its own needs root: {done.stderr.decode().strip()}")


def check_filled(report: dict) -> None:
    assert report["batches"] >= 2, "there was never room, so nothing was shown"
    assert report["as_before"], "a batch that did not fit left something behind"
    assert report["last"] == "later"
    assert report["sequence"] == list(range(1, report["batches"] * 20 + 4))
    assert not report["torn"]


def test_a_full_disk(tmp_path):
    needs_mounting()
    mounting = 'mount -t tmpfs -o size=64k tmpfs "$folder"'
    report = fill_disk(tmp_path, "ballast", mounting=mounting)
    check_filled(report)
    assert "the disk is full; free some space and resume" in report["message"]
    assert str(tmp_path / "metrics.jsonl") in report["message"]


def test_a_limit_on_the_size_of_files(tmp_path):
    """This error once came through as `File too large`, which says nothing about what to do."""
    report = fill_disk(tmp_path, "limit")
    check_filled(report)
    assert "ulimit -f" in report["message"] and "resume" in report["message"]


def test_a_read_only_disk(tmp_path):
    needs_mounting()
    mounting = 'mount -t tmpfs tmpfs "$folder"; touch "$folder"/metrics.jsonl; '
    mounting += 'mount -o remount,ro "$folder"'
    messages = fill_disk(tmp_path, "nothing", mounting=mounting)
    assert len(messages) == 4
    for message in messages:
        assert "the disk is read-only; give a writable folder with --out DIR" in message


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(tmp_path):
    (tmp_path / "metrics.jsonl").touch(mode=0o444)
    tmp_path.chmod(0o555)
    try:
        messages = fill_disk(tmp_path, "nothing")
    finally:
        tmp_path.chmod(0o755)
    for message in messages:
        assert "permission is denied; give a writable folder with --out DIR" in message


def test_a_torn_tail_stays_where_there_is_no_room_to_set_it_aside(tmp_path):
    """The tail may be all that is left of a cell, so it goes only when its copy is safe."""
    path = written(tmp_path / "metrics.jsonl", batch("first", 2))
    with open(path, "ab") as file:
        file.write(b"half a record")
    (tmp_path / "metrics.jsonl.torn").mkdir()
    with pytest.raises(BadInput, match=r"metrics\.jsonl\.torn"):
        written(path, batch("second", 1))
    assert path.read_bytes().endswith(b"half a record")
    assert contents(read(path).records) == contents(batch("first", 2))


def test_replacing_a_file_that_cannot_be_replaced_leaves_no_litter(tmp_path):
    (tmp_path / "DONE").mkdir()
    with pytest.raises(BadInput, match="DONE"):
        write_atomically(tmp_path / "DONE", b"{}")
    assert [file.name for file in tmp_path.iterdir()] == ["DONE"]
