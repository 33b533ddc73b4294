"""W&B's own files: read whole, and up to where a writer was killed."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mirror_process import new_place

from assay.errors import BadInput
from assay.records.wandb_files import messages, stored_run

ROWS = 300  # with the long text enough for several blocks
WRITER = f"""
import wandb
run = wandb.init(id="abc", dir=".", settings=wandb.Settings(console="off", x_disable_stats=True))
run.summary["text"] = "x" * 70_000
for step in range({ROWS}):
    run.log({{"loss": 1 / (step + 1), "a.b": step}}, step=step)
run.finish()
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder in which the real package has written a run."""
    folder = tmp_path_factory.mktemp("written")
    environment = new_place(folder).environment(WANDB_SILENT="true")
    subprocess.run([sys.executable, "-c", WRITER], cwd=folder, env=environment, check=True)
    return folder


@pytest.fixture(scope="module")
def content(written) -> bytes:
    (file,) = written.glob("wandb/offline-run-*/run-abc.wandb")
    return file.read_bytes()


def test_all_rows_come_back(written):
    stored = stored_run(written, "abc")
    values = [(row["_step"], row["loss"], row["a.b"]) for row in stored.history]
    assert values == [(step, 1 / (step + 1), step) for step in range(ROWS)]
    assert stored.summary["text"] == "x" * 70_000


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("scratch") / "run-abc.wandb"


@given(cut=st.integers(0, 200_000))
def test_a_file_that_is_cut_gives_its_beginning(scratch, content, cut):
    whole = _read(scratch, content)
    part = _read(scratch, content[: min(cut, len(content))])
    assert part == whole[: len(part)]
    assert sum(map(len, part)) <= cut
    following = len(whole[len(part)]) if len(part) < len(whole) else 0
    assert cut >= len(content) or sum(map(len, part)) + following + 2_000 + 9 * len(whole) > cut


@given(place=st.integers(7, 200_000), change=st.integers(1, 255))
def test_a_changed_byte_is_noticed(scratch, content, place, change):
    whole = _read(scratch, content)
    position = place % len(content)
    changed = bytearray(content)
    changed[position] ^= change
    if position < 4:
        with pytest.raises(BadInput, match="not a file of W&B"):
            _read(scratch, bytes(changed))
    else:
        part = _read(scratch, bytes(changed))
        assert part == whole[: len(part)]


def test_another_file_is_refused(scratch):
    with pytest.raises(BadInput, match="not a file of W&B"):
        _read(scratch, b"SQLite format 3\0")


def _read(file, content: bytes) -> list[bytes]:
    file.write_bytes(content)
    return list(messages(file))
