"""Prints without end: the files stay small, the writer goes on."""

import os
import sys
from pathlib import Path

import pytest
from new_process import environment

from assay.instruments import bounded_file, forks, isolation
from assay.instruments.bounded_file import KEPT_BYTES, appended
from assay.instruments.isolation import Limits

LINES = 2_000_000  # of 32 bytes
FLOOD = f"""
import ctypes, os


def flood(request):
    libc = ctypes.CDLL(None)
    block = "".join(f"{{number:<31}}\\n" for number in range(1000)).encode()
    os.write(1, b"first of stdout\\n")
    for _ in range({LINES} // 1000):
        os.write(1, block)
    libc.puts(b"last of stdout, by C")
    libc.fflush(None)
    os.write(2, b"short\\n")
    yield from ()


if __name__ == "__main__":
    list(flood({{}}))
"""


@pytest.fixture
def files(tmp_path):
    """Files that an earlier process wrote to."""
    (tmp_path / "flood_question.py").write_text(FLOOD)
    for name in ("stdout", "stderr"):
        (tmp_path / name).write_text("== earlier\n")
    return {name: tmp_path / name for name in ("stdout", "stderr")}


def in_fork(files: dict[str, Path]) -> isolation.Exit:
    return forks.run(
        "flood_question:flood",
        {},
        environment=environment(files["stdout"].parent),
        limits=Limits(timeout_s=60),
        **files,
    )


def in_new_process(files: dict[str, Path]) -> isolation.Exit:
    with open(files["stdout"], "ab") as out, open(files["stderr"], "ab") as err:
        return isolation.run(
            [sys.executable, str(files["stdout"].parent / "flood_question.py")],
            stdout=out, stderr=err, environment=dict(os.environ), limits=Limits(timeout_s=60),
        )  # fmt: skip


@pytest.mark.parametrize("run", [in_fork, in_new_process])
def test_a_flood_leaves_a_beginning_and_an_end(files, run):
    """A kernel that printed in its loop left a log of 4.9 GB."""
    end = run(files)
    assert end.ending == "finished", end
    text = files["stdout"].read_bytes()
    assert text.startswith(b"== earlier\nfirst of stdout\n0 ")
    assert text.endswith(b"last of stdout, by C\n")
    assert len(text) < 3 * KEPT_BYTES + 1000
    (note,) = [line for line in text.splitlines() if line.endswith(b"bytes are left out here")]
    left_out = int(note.split()[1].replace(b",", b""))
    assert 0 < left_out <= (LINES + 2) * 32 - 2 * KEPT_BYTES
    assert files["stderr"].read_text() == "== earlier\nshort\n"


@pytest.mark.parametrize("holes", [True, False])
def test_the_middle_takes_no_room_while_it_grows_and_is_cut_out_at_the_end(
    tmp_path, monkeypatch, holes
):
    if not holes:  # as on macOS
        monkeypatch.setattr(bounded_file, "_punched", lambda *_: False)
    path = tmp_path / "log"
    path.write_bytes(b"before\n")
    (file,) = appended(path, path)
    digits = b"0123456789"
    for digit in digits:
        with open(path, "ab") as writer:
            writer.write(bytes([digit]) * KEPT_BYTES)
        file.trim()
        assert path.stat().st_blocks * 512 <= 3 * KEPT_BYTES + 8192
    file.trim(ended=True)
    note = f"\n== {8 * KEPT_BYTES:,} bytes are left out here\n".encode()
    assert path.read_bytes() == b"before\n" + b"0" * KEPT_BYTES + note + b"9" * KEPT_BYTES
    path.unlink()
    file.trim()  # whoever removed it did not want it
