"""Contents of a run's folder, from which its report is made; nothing in the folder is changed.

A part that cannot be read costs the report that part, not the rest: it becomes a line under
`problems`.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from assay.errors import BadInput
from assay.records import log
from assay.records.identity import current
from assay.records.run import Done, RunFolder, archived_records, open_run, read_done, read_log
from assay.records.schema import CELL_SECONDS, SEVERITY, Record, Run

UNFINISHED = "unfinished"
UNREADABLE = "unreadable"


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage of a run; `records` are those of each cell's last attempt."""

    name: str
    done: Done | None = None
    records: tuple[Record, ...] = ()
    problems: tuple[str, ...] = ()
    readable: bool = True

    @property
    def status(self) -> str:
        """ok, failed or skipped as DONE says, unfinished without it."""
        if not self.readable:
            return UNREADABLE
        return self.done.status if self.done else UNFINISHED

    @property
    def cells(self) -> dict[str, int]:
        """Number of cells with each status, the worst first; a cell counts as its worst record."""
        if self.done:
            counts = Counter(self.done.counts)
        else:
            finished = {record.cell for record in self.records if record.metric == CELL_SECONDS}
            worst: dict[str, str] = {}
            for record in self.records:
                known = worst.setdefault(record.cell, record.status)
                worst[record.cell] = min(known, record.status, key=SEVERITY.index)
            counts = Counter(
                status if cell in finished else UNFINISHED for cell, status in worst.items()
            )
        ordered = (*SEVERITY[:-1], UNFINISHED, SEVERITY[-1])
        return {status: counts[status] for status in ordered if counts[status]}

    @property
    def seconds(self) -> float | None:
        """The time its cells took together; None where no cell has ended."""
        ended = [r.value for r in self.records if r.metric == CELL_SECONDS and r.value is not None]
        return sum(ended) if ended else None


@dataclass(frozen=True, kw_only=True)
class Contents:
    """A run and its stages."""

    run: Run
    stages: tuple[Stage, ...]

    @property
    def records(self) -> list[Record]:
        return [record for stage in self.stages for record in stage.records]

    @property
    def problems(self) -> list[str]:
        return [problem for stage in self.stages for problem in stage.problems]


def read_contents(folder: RunFolder, *, planned: Sequence[str] = ()) -> Contents:
    """Read a run; stages in `planned` that never began are there too, unfinished."""
    _, run = open_run(folder.path)
    if folder.archive.is_file():
        begun = _archived_stages(folder)
    else:
        begun = [_read_stage(folder, path.name) for path in folder.path.glob("stages/*/")]
    begun.sort(key=lambda stage: (_first_time(stage), stage.name))
    names = {stage.name for stage in begun}
    waiting = [Stage(name=name) for name in planned if name not in names]
    return Contents(run=run, stages=(*begun, *waiting))


def _read_stage(folder: RunFolder, name: str) -> Stage:
    try:
        done = read_done(folder, name)
        file = folder.log(name)
        reading = read_log(file) if file.is_file() else log.LogContent(records=[], torn_bytes=0)
    except BadInput as error:
        return Stage(name=name, problems=(f"stage {name}: {error}",), readable=False)
    records = tuple(current(reading.records))
    absent = _absent_cells(name, done, records)
    problems = (*_torn(folder, name, reading.torn_bytes), *absent)
    # A stage whose log has lost cells is not finished, whatever DONE says.
    return Stage(name=name, done=None if absent else done, records=records, problems=problems)


def _archived_stages(folder: RunFolder) -> list[Stage]:
    """The stages of an archived run, which keeps records and no DONE: ended where all cells are."""
    by_stage: dict[str, list[Record]] = {}
    for record in current(archived_records(folder)):
        by_stage.setdefault(record.stage, []).append(record)
    stages = (Stage(name=name, records=tuple(records)) for name, records in by_stage.items())
    return [stage if UNFINISHED in stage.cells else _ended(stage) for stage in stages]


def _ended(stage: Stage) -> Stage:
    failed, last = stage.cells.get("failed", 0), stage.records[-1]
    done = Done(
        status="failed" if failed else "ok",
        reason=f"{failed} of {sum(stage.cells.values())} cells failed" if failed else None,
        cells={},
        counts=stage.cells,
        session=last.session,
        time=last.time,
    )
    return replace(stage, done=done)


def _torn(folder: RunFolder, stage: str, torn_bytes: int) -> list[str]:
    file = folder.log(stage)
    aside = file.with_name(file.name + ".torn")
    lines = []
    if torn_bytes:
        lines.append(
            f"stage {stage}: the last {torn_bytes:,} bytes of {file.name} belong to a batch that "
            "was never completed and are not shown; resuming the run measures those cells again"
        )
    if aside.is_file():
        lines.append(
            f"stage {stage}: {aside.stat().st_size:,} bytes of incomplete batches were set aside "
            f"in {aside.name} by a later start and are not shown"
        )
    return lines


def _absent_cells(stage: str, done: Done | None, records: Sequence[Record]) -> list[str]:
    absent = sorted(set(done.cells if done else ()) - {record.cell for record in records})
    if not absent:
        return []
    return [f"stage {stage}: DONE names cells without any record: {', '.join(absent)}"]


def _first_time(stage: Stage) -> str:
    times = [record.time for record in stage.records] + ([stage.done.time] if stage.done else [])
    return min(times, default="~")  # after every ISO 8601 time
