"""A study run as a user runs it: `python -m assay study ...` in a process of its own."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import warm_commands
from new_process import environment

from assay.records import run as runs
from assay.records.run import Done, RunFolder
from assay.records.schema import CELL_SECONDS, Record, Run

ROOT = Path(__file__).parent.parent.parent
PLUGINS = Path(__file__).parent / "plugins_for_tests"
TIMEOUT_S = 900


@dataclass(frozen=True, kw_only=True)
class StudyProcess:
    """One results folder with at most one run in it, and the processes started on it."""

    folder: Path
    plugins: Path = PLUGINS

    @property
    def results(self) -> Path:
        return self.folder / "results"

    @property
    def diary_file(self) -> Path:
        return self.folder / "diary"

    def run_arguments(self, *stages: str, **settings: object) -> list[str]:
        chosen = {"STAGES": ",".join(stages), **settings}
        sets = [word for name, value in chosen.items() for word in ("--set", f"{name}={value}")]
        return ["run", "--plugins", str(self.plugins), *sets]

    def process_environment(self, changes: dict[str, str] | None = None) -> dict[str, str]:
        """Ours, with what the plugins and this checkout need."""
        scratch = self.folder / "scratch"  # what a killed process leaves there goes with the test
        scratch.mkdir(exist_ok=True)
        ours = environment(TMPDIR=str(scratch), ASSAY_TEST_DIARY=str(self.diary_file))
        ours.pop("PYTHONUNBUFFERED", None)
        return {**ours, **(changes or {})}

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen:
        """`assay study ARGUMENTS --out RESULTS` with stderr in a file; returns at once."""
        with open(self.folder / "stderr", "wb") as stderr:
            return subprocess.Popen(
                [sys.executable, "-m", "assay", "study", *arguments, "--out", str(self.results)],
                cwd=self.folder,
                env=self.process_environment(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                process_group=0,
                # Where the tests run in the background of a shell, SIGINT is ignored, and would
                # be in this process too.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )

    def finish(self, process: subprocess.Popen) -> int:
        return process.wait(timeout=TIMEOUT_S)

    def run(self, *stages: str, env: dict[str, str] | None = None, **settings: object) -> int:
        """Run a new study of these stages to its end; returns its exit code."""
        return self._to_the_end(*self.run_arguments(*stages, **settings), **(env or {}))

    def resume(self, **environment: str) -> int:
        return self._to_the_end("resume", "--trust-plugins", **environment)

    def _to_the_end(self, *arguments: str, **environment: str) -> int:
        """As `start` does it, in a process that nobody interrupts."""
        done = warm_commands.run(
            ["study", *arguments, "--out", str(self.results)],
            cwd=self.folder,
            env=self.process_environment(environment),
            timeout=TIMEOUT_S,
        )
        (self.folder / "stderr").write_text(done.stderr)
        return done.returncode

    @property
    def stderr(self) -> str:
        """Text that the last process wrote to stderr."""
        return (self.folder / "stderr").read_text()

    @property
    def run_folder(self) -> RunFolder:
        return RunFolder(path=runs.newest_run(self.results))

    @property
    def run_json(self) -> Run:
        return runs.open_run(self.run_folder.path)[1]

    def records(self, stage: str) -> list[Record]:
        """Every record of a stage, all attempts."""
        return runs.stage_records(self.run_folder, stage)

    def ends(self, stage: str) -> dict[str, Record]:
        """The record that ends the last attempt at each cell."""
        ends = [record for record in self.records(stage) if record.metric == CELL_SECONDS]
        return {record.cell: record for record in sorted(ends, key=lambda r: r.attempt)}

    def done(self, stage: str) -> Done | None:
        return runs.read_done(self.run_folder, stage)

    def diary(self) -> list[str]:
        """The cells that began, in order."""
        return [name for name, _ in self._diary_lines()]

    def processes(self) -> list[int]:
        """The processes that cells ran in."""
        return [pid for _, pid in self._diary_lines()]

    def wait_for(self, entry: str) -> None:
        """Until a cell of that name has begun."""
        wait_until(lambda: entry in self.diary(), f"{entry} in {self.diary_file}")

    def _diary_lines(self) -> list[tuple[str, int]]:
        text = self.diary_file.read_text() if self.diary_file.exists() else ""
        words = [line.rsplit(" ", 1) for line in text.splitlines()]
        return [(name, int(pid)) for name, pid in words]


def wait_until(holds, what: str, timeout_s: float = 300.0) -> None:
    """Until `holds()`; fails after a time that no test needs on the busiest machine."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits to be collected does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def processes_below(folder: Path) -> list[int]:
    """All processes that work for studies in a folder or below it, however they came about."""
    mark = f"ASSAY_TEST_DIARY={folder}/".encode()
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [pid for pid in pids if mark in environment_of(pid) and is_alive(pid)]


def end_all(folder: Path) -> None:
    """Kill whatever still works for studies below a folder."""
    for pid in processes_below(folder):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def environment_of(pid: int) -> bytes:
    """The environment of a process; empty where it has none or has ended.

    A process that becomes another program (exec) has neither environment nor arguments for a
    moment, on a busy machine for long: it is waited for, or it would be taken for nobody's.
    """
    place, deadline = Path(f"/proc/{pid}"), time.monotonic() + 10.0
    with suppress(OSError):
        while time.monotonic() < deadline:
            environment = (place / "environ").read_bytes()
            is_program = environment or (place / "cmdline").read_bytes()
            if is_program or not is_alive(pid) or _is_of_the_kernel(place):
                return environment
            time.sleep(0.001)
    return b""


def _is_of_the_kernel(place: Path) -> bool:
    """True for a thread of the kernel, which runs no file."""
    try:
        return not os.readlink(place / "exe")
    except FileNotFoundError:
        return True
