"""A study whose cells stream, under kill -9 of any of its processes, with a reader beside it.

Shared by the test of it and by the campaign, which kills by the thousand.
"""

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from study_process import StudyProcess, is_alive, processes_below, wait_until
from walk_records import BATCHES, CELLS, STAGE, check_finished, check_whole

from assay.records import run as runs
from assay.records.identity import current
from assay.records.schema import CELL_SECONDS

STEP_S = 0.06  # from one batch to the next
CELL_S = 0.5  # about as long as a cell takes
TARGETS = ("parent", "group", "server", "worker", "worker", "worker")


class KilledWalk:
    """One run of the stage `walk` under kills."""

    def __init__(
        self,
        folder: Path,
        moments: random.Random,
        left_s: float,
        changes: Mapping[str, str] | None = None,
    ) -> None:
        folder.mkdir(parents=True)
        self.study = StudyProcess(folder=folder)
        self.moments, self.left_s = moments, left_s
        self.changes = {"ASSAY_TEST_STEP_S": str(STEP_S), **(changes or {})}
        self.kills: Counter[str] = Counter()
        self.longest_s = 0.0
        self.process = None

    def has_run(self) -> bool:
        return self.study.results.is_dir() and bool(runs.runs_below(self.study.results))

    def start(self) -> None:
        arguments = ["resume", "--trust-plugins"] if self.has_run() else self.arguments()
        self.process = self.study.start(*arguments, **self.changes)

    def arguments(self) -> list[str]:
        return self.study.run_arguments(STAGE)

    def progress(self) -> int:
        """A number that grows when cells get on."""
        return len(self.study.diary())

    def workers(self) -> list[int]:
        """The processes that cells run in, the newest last."""
        return self.alive(self.study.processes())

    def kill_once(self) -> bool:
        """Kill something at a random moment; False where the run ended before it."""
        if self.process is None or self.process.poll() is not None:
            if self.is_finished():
                return False
            self.start()
        self.wait()
        target = self.moments.choice(TARGETS)
        shown = self.shown()
        if not self.kill(target):
            return self.kill_once()
        self.kills[target] += 1
        after = self.shown()
        assert all(after[cell] >= shown[cell] for cell in shown), f"lost: {shown}, then {after}"
        return True

    def wait(self) -> None:
        """Until a moment in a cell, or in a start."""
        before = self.progress()
        if self.moments.random() < 0.8:  # else at any moment of a start
            wait_until(lambda: self.progress() > before or self.process.poll() is not None, "work")
        time.sleep(self.moments.random() * CELL_S)

    def kill(self, target: str) -> bool:
        """Kill a target, if it is there, and see that all ends which should."""
        process, newest = self.process, self.workers()[-1:]
        # Each environment of cells has a server: that of the cell at work, if there is one.
        servers = children(process.pid)
        busy = [server for server in servers if set(newest) & set(children(server))]
        server = (busy or servers)[:1]
        forks = self.alive([pid for each in server for pid in children(each)])
        victims = {"worker": newest, "server": server}.get(target, [process.pid])
        if not victims or process.poll() is not None:
            return False
        with suppress(ProcessLookupError):
            if target == "group":
                os.killpg(process.pid, signal.SIGKILL)
            else:
                os.kill(victims[0], signal.SIGKILL)
        start = time.monotonic()
        ending = forks if target in ("worker", "server") else None
        if ending is None:
            process.wait()
        wait_until(
            lambda: not (self.left() if ending is None else self.alive(ending)),
            f"the end of what was left by the {target}",
            self.left_s,
        )
        self.longest_s = max(self.longest_s, time.monotonic() - start)
        return True

    def left(self) -> list[int]:
        """All processes that work for this study, however they came about."""
        return processes_below(self.study.folder)

    def alive(self, pids) -> list[int]:
        return [pid for pid in dict.fromkeys(pids) if is_alive(pid)]

    def shown(self) -> dict[str, int]:
        """The batches of each cell that a reader sees now, each whole and in order."""
        if not self.has_run():
            return dict.fromkeys(CELLS, 0)
        return check_whole(self.study.records(STAGE))

    def is_finished(self) -> bool:
        return self.has_run() and self.study.done(STAGE) is not None and self.exit_code == 0

    @property
    def exit_code(self) -> int | None:
        return self.process.poll() if self.process else None

    def finish(self) -> None:
        while not self.is_finished():
            if self.process is None or self.exit_code is not None:  # else it survived the last kill
                self.start()
            code = self.study.finish(self.process)
            assert code in (0, 1), f"it ends with {code}: {self.study.stderr[-1500:]}"
        wait_until(lambda: not self.left(), "the end of all processes", self.left_s)

    def check(self, undisturbed: list) -> None:
        check_finished(self.study)
        assert content(self.study) == undisturbed
        made = Counter(name for name in self.study.diary() if ":" in name)
        assert made.keys() == {f"{c}:{n}" for c in CELLS for n in range(1, BATCHES + 1)}
        kills = self.kills.total()
        assert made.total() <= len(CELLS) * BATCHES + kills, "a kill cost more than a batch"

    @contextmanager
    def reader(self):
        """Somebody who looks at the records all the time."""
        stop, looks, errors = threading.Event(), [0], []

        def look() -> None:
            before: dict[str, int] = {}
            while not stop.is_set():
                try:
                    now = self.shown()
                    assert all(now[cell] >= before[cell] for cell in before), (before, now)
                    before, looks[0] = now, looks[0] + 1
                except BaseException as error:
                    errors.append(error)
                    return
                time.sleep(0.03)

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield looks
        finally:
            stop.set()
            thread.join()
            if self.process:
                self.process.kill()
                self.process.wait()
        if errors:
            raise errors[0]


def children(pid: int) -> list[int]:
    with suppress(FileNotFoundError, ProcessLookupError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def content(study: StudyProcess) -> list:
    """The current records of the stage, without times and what says when they were made."""
    records = [r for r in current(study.records(STAGE)) if r.metric != CELL_SECONDS]
    return sorted((r.cell, r.metric, r.value, r.total or 0, r.status) for r in records)


@dataclass(frozen=True, kw_only=True)
class KilledRuns:
    """Kills by target, runs, looks at their records, and the longest that a process lived on."""

    killed: Counter[str]
    runs: int
    looks: int
    longest_s: float


def kill_often(
    folder: Path,
    kills: int,
    moments: random.Random,
    left_s: float,
    undisturbed: list,
    kind: type[KilledWalk] = KilledWalk,
) -> KilledRuns:
    """Kill runs in `folder` so many times in all, and look at each when it is finished."""
    total, looks, longest_s, number = Counter(), 0, 0.0, 0
    while total.total() < kills:
        walk = kind(folder / f"run{number}", moments, left_s)
        number += 1
        with walk.reader() as looked:
            while total.total() + walk.kills.total() < kills and walk.kill_once():
                pass
            walk.finish()
        walk.check(undisturbed)
        total += walk.kills
        looks += looked[0]
        longest_s = max(longest_s, walk.longest_s)
    assert total.total() == kills
    return KilledRuns(killed=total, runs=number, looks=looks, longest_s=longest_s)
