"""`assay train --watch`: a real run while it is trained and after, in a terminal and in a pipe."""

import codecs
import fcntl
import json
import os
import pty
import random
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from command_line import assay
from new_process import environment

from assay.records import run as runs

SIZES = {
    "TRAIN_LAYERS": 1, "TRAIN_HEADS": 1, "TRAIN_WIDTH": 16, "TRAIN_LENGTH": 16, "TRAIN_BATCH": 2,
    "TRAIN_WINDOWS": 2, "TRAIN_REPORT_EVERY": 2, "TRAIN_EVALUATE_EVERY": 4, "TRAIN_SAVE_EVERY": 4,
    "TRAIN_WARMUP": 2, "TRAIN_TOKENIZER": "byte", "TRAIN_DATASET": "folder", "TRAIN_PLACE": "text",
    "TRAIN_SAMPLE_TOKENS": 4, "STAGES": "models,train", "DEVICE_CPU": "y",
}  # fmt: skip
PATIENCE_S = 300.0  # longer than any of these takes on the busiest machine
SHOW_CURSOR, HIDE_CURSOR = "\x1b[?25h", "\x1b[?25l"
ENTER_SCREEN, LEAVE_SCREEN = "\x1b[?1049h", "\x1b[?1049l"


def training(folder: Path, *, steps: int, models: str = "GPT2,GPT2_RA") -> list[str]:
    (folder / "text").mkdir(exist_ok=True)
    draw = random.Random(0)
    for number in range(20):
        words = " ".join(draw.choice(("keys", "values", "and", "a", "head")) for _ in range(60))
        (folder / "text" / f"{number}.txt").write_text(words)
    sets = [word for name, value in SIZES.items() for word in ("--set", f"{name}={value}")]
    return ["train", models, "--steps", str(steps), "--seeds", "0", *sets]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A folder with a run of two models that has ended."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("trained")
    done = assay(*training(folder, steps=12), cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def _own_the_terminal() -> None:
    """In a process about to begin: Ctrl-C on its standard input is for it, and ends it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """A command in a pseudo-terminal, and all that it wrote there."""

    def __init__(self, *arguments: str, cwd: Path) -> None:
        self.leader, follower = pty.openpty()
        self.resize(30, 80)
        surroundings = environment(TERM="xterm-256color", LANG="C.UTF-8", PYTHONUTF8="1")
        for name in ("COLUMNS", "LINES", "NO_COLOR"):
            surroundings.pop(name, None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "assay", *arguments], cwd=cwd, env=surroundings,
            stdin=follower, stdout=follower, stderr=follower, start_new_session=True,
            preexec_fn=_own_the_terminal,
        )  # fmt: skip
        os.close(follower)
        self.written = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def resize(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self.leader, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read_until(self, pattern: str, *, after: int = 0) -> None:
        """Read on until what came after a place matches."""
        deadline = time.monotonic() + PATIENCE_S
        while not re.search(pattern, self.written[after:], re.DOTALL):
            assert time.monotonic() < deadline, f"no {pattern!r} in {self.written[-3000:]!r}"
            if not self._read(1.0):
                break
        assert re.search(pattern, self.written[after:], re.DOTALL), self.written[-3000:]

    def finish(self) -> int:
        while self._read(1.0):
            pass
        return self.process.wait(timeout=PATIENCE_S)

    def _read(self, seconds: float) -> bool:
        """False once the other end is closed."""
        if not select.select([self.leader], [], [], seconds)[0]:
            return True
        try:
            self.written += self._decoder.decode(os.read(self.leader, 1 << 16))
        except OSError:  # the last process that had it open has ended
            return False
        return True


@pytest.fixture
def started():
    """Processes that end with the test, each with all that it started."""
    processes: list[subprocess.Popen] = []
    yield processes
    for process in processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=PATIENCE_S)


def start_training(folder: Path, started: list, **options) -> subprocess.Popen:
    """Begin a run; returns when it has its folder."""
    process = subprocess.Popen(
        [sys.executable, "-m", "assay", *training(folder, **options)], cwd=folder,
        env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    started.append(process)
    deadline = time.monotonic() + PATIENCE_S
    while not list(folder.glob("results/train/*/run.json")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    return process


def test_a_run_that_has_ended_is_one_snapshot(trained):
    shown = assay("train", "--watch", cwd=trained)
    assert shown.returncode == 0 and shown.stderr == ""
    assert shown.stdout.isascii() and "\x1b" not in shown.stdout
    for words in (
        ": ended after",
        "2 of 2 cells ended",
        "12/12",
        "not recorded on a CPU",
        "* GPT2",
    ):
        assert words in " ".join(shown.stdout.split()), words  # lines are as wide as the terminal
    run = next((trained / "results" / "train").iterdir())
    for place in (run, run.parent, trained / "results"):
        assert assay("train", "--watch", place, cwd=trained).stdout == shown.stdout


def test_json_has_what_the_records_have(trained):
    shown = json.loads(assay("train", "--watch", "--json", cwd=trained).stdout)
    records = runs.load_records(trained / "results")
    ends = {r.cell: r.value for r in records if r.metric == "final_val_loss"}
    assert {f"{c['arm']}/s{c['seed']}": c["val_loss"] for c in shown["cells"]} == ends
    assert shown["cells"][1]["difference"] == ends["GPT2_RA/s0"] - ends["GPT2/s0"]
    losses = [r for r in records if (r.cell, r.metric) == (shown["shown"], "train_loss")]
    assert shown["training"]["points"] == [[r.data["step"], r.value] for r in losses]
    assert (shown["state"], shown["remaining"]["seconds"]) == ("ended", None)


def test_nothing_is_written_and_torch_is_not_needed(trained):
    def state() -> dict[str, int]:
        return {str(p): p.stat().st_mtime_ns for p in (trained / "results").rglob("*")}

    before = state()
    shown = assay("train", "--watch", cwd=trained, hide=("torch", "jax", "triton"))
    assert shown.returncode == 0 and state() == before


def test_bad_input_is_said_in_words(trained, tmp_path):
    (tmp_path / "empty").mkdir()
    corrupt = tmp_path / "results" / "train" / "20250101T000000.000Z-aaaa"
    run = next((trained / "results" / "train").iterdir())
    (corrupt / "stages" / "train").mkdir(parents=True)
    (corrupt / "run.json").write_bytes((run / "run.json").read_bytes())
    for words, arguments in {
        "there is no folder nowhere": ["nowhere"],
        "no run that trains in empty": ["empty"],
        "has no record of training, and no process runs it": [corrupt],
        "takes no --steps, --set": [run, "--steps", "3", "--set", "MODELS=GPT2"],
        "takes no --dry-run": ["--dry-run"],
    }.items():
        done = assay("train", "--watch", *arguments, cwd=tmp_path)
        assert done.returncode == 2 and words in done.stderr, (done.stderr, done.stdout)
        assert not done.stdout
    log = (run / "stages" / "train" / "metrics.jsonl").read_bytes()
    (corrupt / "stages" / "train" / "metrics.jsonl").write_bytes(b"{]" + log)
    for more in ([], ["--json"]):
        done = assay("train", "--watch", corrupt, *more, cwd=tmp_path)
        assert done.returncode == 2 and "metrics.jsonl:1: not a record" in done.stderr


@pytest.mark.slow
def test_a_run_is_followed_while_it_is_trained_and_left_with_ctrl_c(tmp_path, started):
    """Before it has begun, in a window that changes its size, then left: the cursor is back. The
    run goes on, and is interrupted when its own process is."""
    pytest.importorskip("torch")
    study = start_training(tmp_path, started, steps=100_000, models="GPT2")
    terminal = Terminal("train", "--watch", cwd=tmp_path)
    started.append(terminal.process)
    terminal.read_until(r"training has not begun")
    terminal.read_until(r"GPT2 seed 0: ETA ")
    terminal.read_until(r"by the last \d+ reports")
    terminal.read_until(r"[\u2801-\u28ff]")
    assert ENTER_SCREEN in terminal.written and HIDE_CURSOR in terminal.written
    place = len(terminal.written)
    step = re.findall(r"running +([\d,]+)/", terminal.written)[-1]
    terminal.resize(40, 132)
    terminal.read_until("─{115}", after=place)  # an axis as wide as the new window
    terminal.read_until(rf"running +(?!{step}/)[\d,]+/100,000", after=place)
    os.write(terminal.leader, b"\x03")
    assert terminal.finish() == 0
    end = terminal.written
    assert end.rindex(SHOW_CURSOR) > end.rindex(HIDE_CURSOR)
    assert end.rindex(LEAVE_SCREEN) > end.rindex(ENTER_SCREEN)
    assert "Traceback" not in end and study.poll() is None, "the run goes on"
    study.send_signal(signal.SIGINT)
    study.wait(timeout=PATIENCE_S)
    shown = assay("train", "--watch", cwd=tmp_path)
    assert shown.returncode == 0 and ": interrupted after" in shown.stdout
    assert "go on with: assay study resume" in shown.stdout


@pytest.mark.slow  # a third run, for the end alone
def test_a_run_that_ends_meanwhile_ends_the_watching(tmp_path, started):
    pytest.importorskip("torch")
    study = start_training(tmp_path, started, steps=12)
    terminal = Terminal("train", "--watch", "results/train", cwd=tmp_path)
    started.append(terminal.process)
    assert terminal.finish() == 0 and study.wait(timeout=PATIENCE_S) == 0
    last = terminal.written.rpartition(LEAVE_SCREEN)[2]
    assert "ended after" in re.sub(r"\x1b\[[\d;]*m", "", last) and "12/12" in last
