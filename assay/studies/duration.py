"""Time that a study may take: by what the same cells took in earlier runs on this host, or like
ones of their stage; where there are none, by their limits."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import msgspec

from assay.host import Host
from assay.records.run import RunFolder, newest_first
from assay.records.schema import CELL_SECONDS
from assay.studies import plan, reuse
from assay.studies.plan import PlannedStage
from assay.studies.study import Study

_MOST_RUNS = 20  # the newest ones that are looked at
_END_MARK = f'"{CELL_SECONDS}"'.encode()


class _CellEnd(msgspec.Struct):
    """That of the last record of a cell which says how long it took."""

    stage: str
    cell: str
    fingerprint: str
    host: str
    value: float


@dataclass(frozen=True, kw_only=True)
class Duration:
    """Seconds that some of a study's cells may take, and how many have no such estimate."""

    seconds: float
    estimated: int
    unknown: int
    limit_s: float  # of each cell


def estimated(
    study: Study,
    stages: Sequence[PlannedStage],
    host: Host,
    results: Path,
    *,
    reused: bool = False,
) -> Duration:
    """The time of all planned cells by the runs in `results`; with `reused`, those that a run would
    take over from there take none."""
    hosts = plan.hosts_of(study, host)
    ends = [end for end in _cell_ends(results) if end.host in hosts and end.value > 0]
    known = {end.fingerprint: end.value for end in reversed(ends)}  # the newest counts
    named = {(end.stage, end.cell): end.value for end in reversed(ends)}
    seconds, unknown, cells = 0.0, 0, 0
    for stage in stages:
        like = [end.value for end in ends if end.stage == stage.name]
        for planned in stage.cells:
            cells += 1
            if reused and stage.reusable_h:
                new = RunFolder(path=results / study.study / "new")
                if reuse.measured_before(stage, planned, new, hosts):
                    continue
            alike = known.get(planned.fingerprint) or named.get((stage.name, planned.cell.name))
            if alike is None and not like:
                unknown += 1
            else:
                seconds += median(like) if alike is None else alike
    return Duration(
        seconds=seconds,
        estimated=cells - unknown,
        unknown=unknown,
        limit_s=study.cell_timeout_s,
    )


def cells_before(results: Path, host: str) -> dict[str, dict[str, float]]:
    """Seconds of cells in the runs in `results` on a host, by stage and name; the newest counts."""
    stages: dict[str, dict[str, float]] = {}
    for end in _cell_ends(results):
        if end.host == host and end.value > 0:
            stages.setdefault(end.stage, {}).setdefault(end.cell, end.value)
    return stages


def _cell_ends(results: Path) -> Iterator[_CellEnd]:
    """Ends of cells in the newest runs, the newest run first; a line that is none is left out."""
    decoder = msgspec.json.Decoder(_CellEnd)
    for folder in newest_first(results)[:_MOST_RUNS]:
        for log in folder.logs():
            with suppress(OSError), open(log, "rb") as lines:
                for line in lines:
                    if _END_MARK in line:
                        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
                            yield decoder.decode(line)
