"""Progress of a run for people: a live bar on a terminal, lines in a log, a table of stages."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from assay.records.foreign_text import visible
from assay.reports.numerals import DASH, counted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress

    from assay.records.run import RunFolder
    from assay.records.schema import Record, Status
    from assay.reports.table import Table
    from assay.studies.duration import Duration
    from assay.studies.progress import CellAtWork, Estimate

BAR_S = 0.5  # from one look at the cells at work to the next, on a terminal
LINE_S = 30.0  # the same in a log, where each look is a line


@dataclass(kw_only=True)
class _ShownStage:
    """The stage at work, as far as it is known without a look into its folder."""

    name: str
    due: int
    task: Any  # the number of its bar
    done_s: list[float]
    outcomes: Counter[str] = field(default_factory=Counter)

    @property
    def left(self) -> int:
        return self.due - self.outcomes.total()


class Progress:
    """Shows a run while it goes, on stderr: a bar on a terminal; elsewhere a line for each cell
    that ends, and for a long one from time to time."""

    def __init__(self, folder: "RunFolder") -> None:
        from rich.console import Console

        self.console = Console(stderr=True)
        self._bar = _rich_bar(self.console)
        self._folder = folder
        self._stage: _ShownStage | None = None
        self._stop = Event()
        self._looking = Thread(target=self._look, daemon=True)

    def __enter__(self) -> "Progress":
        self._bar.start()
        self._looking.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._looking.join()
        self._bar.stop()

    def stage(self, name: str, due: int, total: int) -> None:
        from assay.records.identity import current
        from assay.records.run import stage_records
        from assay.studies import progress

        kept = f", {total - due} kept" if due < total else ""
        self.note(f"stage {name}: {counted(due, 'cell')} to run{kept}")
        done_s = progress.durations(current(stage_records(self._folder, name)))
        task = self._bar.add_task(name, total=due, state="")
        self._stage = _ShownStage(name=name, due=due, task=task, done_s=done_s)

    def cell(self, name: str, status: "Status", reason: str | None, elapsed_s: float) -> None:
        assert self._stage
        self._stage.outcomes[status] += 1
        self._stage.done_s += [elapsed_s] if elapsed_s else []
        self._bar.update(self._stage.task, advance=1, state=outcomes_text(self._stage.outcomes))
        if status != "ok" or not self.console.is_terminal:
            self.note(f"  {status:<8} {elapsed_s:6.1f} s  {name}{f': {reason}' if reason else ''}")

    def note(self, text: str) -> None:
        self.console.print(visible(text), markup=False, highlight=False, soft_wrap=True)

    def _look(self) -> None:
        """Show the cells at work again and again, until the run ends."""
        from assay.host import own_fingerprint
        from assay.studies import duration, progress

        every_s = BAR_S if self.console.is_terminal else LINE_S
        before = duration.cells_before(self._folder.path.parent.parent, own_fingerprint())
        while not self._stop.wait(every_s):
            stage = self._stage
            running = progress.at_work(self._folder.stage(stage.name)) if stage else []
            if stage is None or not running or not stage.left:
                continue
            waiting = max(0, stage.left - len(running))
            known = before.get(stage.name, {})
            ahead = estimate_text(progress.estimate(stage.done_s, running, waiting, known))
            if self.console.is_terminal:
                words = [ahead, outcomes_text(stage.outcomes), *map(cell_text, running)]
                self._bar.update(stage.task, state=" · ".join(filter(None, words)))
                continue
            for cell in running:
                if cell.elapsed_s >= every_s:
                    self.note(f"  at work  {cell_text(cell)}; {ahead}")


def _rich_bar(console: "Console") -> "RichProgress":
    """Stage, bar, cells and time as wide as they are, and of the state as much as fits beside."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        ProgressColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.progress import Progress as RichProgress
    from rich.table import Column
    from rich.text import Text

    class StateColumn(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(task.fields["state"], no_wrap=True, overflow="ellipsis")

    def whole() -> Column:
        return Column(no_wrap=True)

    return RichProgress(
        TextColumn("{task.description}", markup=False, table_column=whole()),
        BarColumn(bar_width=20, table_column=whole()),
        MofNCompleteColumn(table_column=whole()),
        TimeElapsedColumn(table_column=whole()),
        StateColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


@dataclass(frozen=True)
class StageState:
    """A stage of a run as somebody finds it who looks from outside."""

    name: str
    cells: int
    due: int  # cells that are at work or to be run
    records: "Sequence[Record]"  # of each cell's last attempt
    running: "Sequence[CellAtWork]"


def stages_table(title: str, stages: Sequence[StageState]) -> "Table":
    """A row for each stage: what is done, with which outcome, what is at work, what is left."""
    from assay.records.verdicts import skipped_cells
    from assay.reports.table import tabulate
    from assay.studies import progress

    def done(stage: StageState) -> int:
        idle = sum(len(each.reasons) for each in skipped_cells(stage.records))
        return max(0, stage.cells - stage.due - idle)

    def ahead(stage: StageState) -> str:
        waiting = max(0, stage.due - len(stage.running))
        done_s = progress.durations(stage.records)
        return estimate_text(progress.estimate(done_s, stage.running, waiting), label="")

    columns = {
        "stage": lambda stage: stage.name,
        "cells done": lambda stage: f"{done(stage)} of {stage.cells}",
        "outcomes so far": lambda stage: outcomes_text(progress.outcomes(stage.records)) or DASH,
        "at work": lambda stage: "; ".join(map(cell_text, stage.running)) or DASH,
        "ETA": lambda stage: ahead(stage) if stage.running else DASH,
    }
    return tabulate(title, stages, columns)


def cell_text(cell: "CellAtWork") -> str:
    """A cell at work, how far it is, for how long and by its batches how much longer."""
    place = f": {cell.place}" if cell.place else ""
    left = f", {time_text(cell.remaining_s)} left" if cell.remaining_s is not None else ""
    return f"{visible(cell.name + place)}, for {time_text(cell.elapsed_s)}{left}"


def outcomes_text(outcomes: "Counter[str]") -> str:
    """Cells by status, the worst first."""
    from assay.records.schema import SEVERITY

    return ", ".join(f"{outcomes[status]} {status}" for status in SEVERITY if outcomes[status])


def estimate_text(estimate: "Estimate", *, label: str = "ETA ") -> str:
    """The time that is left, and what that is estimated from."""
    if estimate.seconds is None:
        return f"{label}{DASH}"
    return f"{label}{time_text(estimate.seconds)} (from {estimate.basis})"


def duration_text(duration: "Duration") -> str:
    """The time that a study may take, and what that is known from."""
    bound = f"at most {time_text(duration.limit_s)} each"
    if not duration.estimated:
        return f"No earlier run on this host says how long it takes: {bound}."
    rest = f"; {counted(duration.unknown, 'further cell')}, {bound}" if duration.unknown else ""
    return f"About {time_text(duration.seconds)} by earlier runs on this host{rest}."


def time_text(seconds: float) -> str:
    """A time to about two digits, in the unit that people would use."""
    for unit_s, name in ((3600, "h"), (60, "min")):
        if seconds >= 2 * unit_s:
            return f"{seconds / unit_s:.{1 if seconds < 10 * unit_s else 0}f} {name}"
    return f"{seconds:.0f} s"
