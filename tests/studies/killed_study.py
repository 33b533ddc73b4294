"""A study under kill -9: killed at chosen moments, resumed, and what must hold of it then.

Shared by the test of it and by the campaign, which kills by the thousand.
"""

import random
import time
from collections import Counter
from pathlib import Path

from study_process import StudyProcess, processes_below, wait_until

from assay.records.run import newest_run, runs_below
from assay.records.schema import CELL_SECONDS

CELLS, RECORDS = 30, 5
STAGE = "many"
CELLS_S = 0.6  # a few cells
REPORT_S = 0.05  # less than it takes from the last cell to the end of the report


class KilledStudy:
    """One run under kills: what had ended by when, and what began."""

    def __init__(self, folder: Path, moments: random.Random, left_s: float) -> None:
        folder.mkdir()
        self.study = StudyProcess(folder=folder)
        self.moments, self.left_s = moments, left_s
        self.kills = 0
        self.reached = Counter()

    def has_run(self) -> bool:
        return self.study.results.is_dir() and bool(runs_below(self.study.results))

    def start(self):
        if self.has_run():
            return self.study.start("resume", "--trust-plugins")
        return self.study.start(*self.study.run_arguments(STAGE))

    def kill_once(self, aim: str, life_s: float) -> None:
        """Start, kill, and check that no cell began that had ended before the start.

        Aims: `start` is any moment in which a process without work would still live, `cells` is
        soon after its first cell began, `report` is soon after the last cell, or where none
        was left, soon after the run was held.
        """
        ended, began, sessions = self.ended(), len(self.study.diary()), self.sessions()
        process = self.start()
        if aim == "report":
            wait_until(
                lambda: self.sessions() > sessions and len(self.ended()) == CELLS, "the last cell"
            )
            time.sleep(self.moments.random() * REPORT_S)
        elif aim == "cells" and len(ended) < CELLS:
            wait_until(lambda: len(self.study.diary()) > began, "a cell")
            time.sleep(self.moments.random() * CELLS_S)
        else:
            time.sleep(self.moments.random() * life_s)
        self.reached[self._state(process, sessions)] += 1
        process.kill()
        process.wait()
        self.kills += 1
        wait_until(
            lambda: not processes_below(self.study.folder), "the end of all processes", self.left_s
        )
        self.check_none_again(ended, began)

    def finish(self) -> None:
        ended, began = self.ended(), len(self.study.diary())
        assert self.study.finish(self.start()) == 0
        self.check_none_again(ended, began)

    def check_none_again(self, ended: set[str], began: int) -> None:
        """No cell of `ended` is in the diary after its first `began` entries."""
        again = ended & set(self.study.diary()[began:])
        assert not again, f"finished and yet run again: {sorted(again)}; {self.why_again()}"

    def why_again(self) -> str:
        """An edit to the code while this test runs shows as a second fingerprint."""
        hosts = {record.host for record in self.study.records(STAGE)}
        fingerprints = {r.fingerprint for r in self.study.records(STAGE) if r.cell == "cell00"}
        return f"hosts {hosts}, fingerprints of the first cell {fingerprints}"

    def ended(self) -> set[str]:
        """The cells whose end is in the log, which must be readable at any time."""
        if not self.has_run():
            return set()
        return {r.cell for r in self.study.records(STAGE) if r.metric == CELL_SECONDS}

    def sessions(self) -> int:
        return len(self.study.run_json.sessions) if self.has_run() else 0

    def _state(self, process, sessions_before: int) -> str:
        """Where in its life the process is."""
        if process.poll() is not None:
            return "ended"
        if self.sessions() == sessions_before:
            return "starting"
        return "reporting" if len(self.ended()) == CELLS else "running cells"

    def check_records(self) -> None:
        """Every cell has one attempt and exactly its records, and began once more than was cut."""
        records = self.study.records(STAGE)
        assert len(records) == CELLS * (RECORDS + 1)
        assert [r.sequence for r in records] == list(range(1, len(records) + 1))
        assert {r.attempt for r in records} == {1}
        by_cell = {}
        for record in records:
            by_cell.setdefault(record.cell, []).append(record)
        assert list(by_cell) == [f"cell{number:02}" for number in range(CELLS)]
        for number, of_cell in enumerate(by_cell.values()):
            values = [float(100 * number + index) for index in range(RECORDS)]
            metrics = [f"metric{index}" for index in range(RECORDS)]
            assert [r.metric for r in of_cell] == [*metrics, CELL_SECONDS]
            assert [r.value for r in of_cell[:-1]] == values
            assert [r.samples for r in of_cell[:-1]] == [[value] * 10 for value in values]
            assert of_cell[-1].closes == RECORDS + 1
            assert {r.status for r in of_cell} == {"ok"}
            assert len({r.session for r in of_cell}) == 1

    def check_run(self) -> None:
        """One run, one DONE, a report, and no more sessions than starts."""
        folder = newest_run(self.study.results)
        assert [run.path for run in runs_below(self.study.results)] == [folder]
        done = self.study.done(STAGE)
        assert done.status == "ok" and done.counts == {"ok": CELLS}
        numbers = [session.number for session in self.study.run_json.sessions]
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) <= self.kills + 1
        assert "passed" in (folder / "report.md").read_text()
        beginnings = Counter(self.study.diary())
        assert set(beginnings) == set(done.cells)
        assert sum(beginnings.values()) <= CELLS + self.kills, "more began than kills can explain"


def idle_life_s(folder) -> float:
    """Seconds that a process lives without a cell to run: start-up, planning and the report."""
    study = StudyProcess(folder=folder)
    assert study.finish(study.start(*study.run_arguments("early_a"))) == 0
    start = time.monotonic()
    assert study.finish(study.start("resume", "--trust-plugins")) == 0
    return time.monotonic() - start


def aims(moments: random.Random, kills: int) -> list[str]:
    """Kills of one run in order; once there was one in the report, no cell is left."""
    late = max(2, kills // 8 * 2)
    early = [moments.choice(("start", "cells")) for _ in range(kills - late - 2)]
    return ["start", "cells", *early, *["report", "start"] * (late // 2)]


def kill_and_finish(
    folder: Path, kills: int, moments: random.Random, life_s: float, left_s: float = 60.0
) -> Counter[str]:
    """Kill one study so many times, finish it and check it; return where the kills met it."""
    watch = KilledStudy(folder, moments, left_s)
    for aim in aims(moments, kills):
        watch.kill_once(aim, life_s)
    watch.finish()
    watch.check_records()
    watch.check_run()
    assert watch.kills == kills
    return watch.reached
