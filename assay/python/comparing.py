"""`assay.compare(before, after)`: is something wrong, or slower, that was not before?"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import BadInput
from assay.python.loading import RunRecords, load_records
from assay.python.tabular import Tabular, table_of
from assay.records.check_answer import FAIL, INCOMPLETE, PASS, Answer
from assay.records.schema import CELL_METRICS, Measurement
from assay.records.verdicts import CHECKING, NO_VERDICTS, WRONG, is_verdict

if TYPE_CHECKING:
    from assay.python.checking import CheckResult
    from assay.reports.table import Table

Place = tuple[str, str, str]  # subject, probe or metric, workload or cell

WORSE, SLOWER, MENDED, SAME, NEW, GONE = "worse", "slower", "mended", "same", "new", "gone"
UNJUDGED = "not judged"
_NO_NOISE = "the noise was not measured; add the stage noise to STAGES"


@dataclass(frozen=True, kw_only=True)
class Judged:
    """An outcome of a check: its status, the cases behind it and its reason."""

    status: str
    cases: int = 0
    reason: str | None = None

    @property
    def wrong(self) -> bool:
        return self.status in WRONG


@dataclass(frozen=True, kw_only=True)
class ResultDifference:
    """A verdict or time before and after; a time that both have has a ratio, with a 99 % interval,
    where it may be taken."""

    subject: str
    metric: str
    workload: str
    verdict: str
    before: str | None = None
    after: str | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str | None = None


class ComparedResults(Tabular, tuple[ResultDifference, ...]):
    """All verdicts and times of both; true where something was compared, nothing is worse and, if
    there are times, some were judged."""

    def __bool__(self) -> bool:
        return self.answer.word == PASS

    @property
    def worse(self) -> list[ResultDifference]:
        return [each for each in self if each.verdict in (WORSE, SLOWER)]

    @property
    def answer(self) -> Answer:
        """The lines that a reader can act on, and a word for programs."""
        from assay.laws.regression import METRICS
        from assay.reports.numerals import counted

        if not len(self):
            return Answer(word=INCOMPLETE, lines=(f"{INCOMPLETE}  nothing is in both of them",))
        times = [each for each in self if each.metric in METRICS]
        verdicts = counted(len(self) - len(times), "verdict")
        counts = f"{verdicts} and {counted(len(times), 'time')} compared"
        unjudged = [each for each in times if each.verdict == UNJUDGED]
        if unjudged:
            reasons = "; ".join(dict.fromkeys(each.reason or "" for each in unjudged))
            counts += f", {len(unjudged):,} of {counted(len(times), 'time')} not judged: {reasons}"
        if self.worse:
            lines = [f"{FAIL}  {len(self.worse):,} worse: {counts}", *map(_words, self.worse)]
            return Answer(word=FAIL, lines=tuple(lines))
        if times and len(unjudged) == len(times):
            lines = [f"{INCOMPLETE}  no verdict is worse, and no time was judged: {counts}"]
            return Answer(word=INCOMPLETE, lines=tuple(lines))
        return Answer(word=PASS, lines=(f"{PASS}  nothing is worse: {counts}",))

    def _answer(self) -> list[str]:
        return list(self.answer.brief)

    def _columns(self) -> dict[str, list[Any]]:
        return _columns(self)

    def _table(self) -> "Table":
        """The rows that differ from before, in the columns that say something of them."""
        from assay.reports.numerals import counted

        differ = [each for each in self if each.verdict != SAME]
        filled = {name: xs for name, xs in _columns(differ).items() if set(xs) - {None, ""}}
        same = len(self) - len(differ)
        return table_of(filled, note=f"The same as before: {counted(same, 'row')}." if same else "")


def compare(
    before: "RunRecords | CheckResult | str | Path", after: "RunRecords | CheckResult | str | Path"
) -> ComparedResults:
    """Hold a result against an earlier one: runs, by their folders or as `assay.bench` returned
    them, or verdicts of `assay.check`.

    A time counts as slower beyond the noise that the stage noise of `after` measured
    (settings={"STAGES": "host,suite,bench,noise"}); without it, ratios are given and not judged.
    A time that `after` lacks is worse. Between machines or devices no time is judged.
    """
    sides = [
        load_records(side) if isinstance(side, str | Path) else side for side in (before, after)
    ]
    then, now = sides
    if isinstance(then, RunRecords) != isinstance(now, RunRecords):
        raise BadInput("a run is compared with a run, a verdict of assay.check with a verdict")
    if not (isinstance(then, RunRecords) and isinstance(now, RunRecords)):
        # Two versions of a kernel, which may have names of their own.
        return ComparedResults(
            verdict_differences(*(judged(side.measurements, now.name) for side in sides))
        )
    _require_subject_in_common(then, now)
    differences = list(verdict_differences(_verdicts(then), _verdicts(now)))
    return ComparedResults([*differences, *_times(then, now)])


def _require_subject_in_common(then: RunRecords, now: RunRecords) -> None:
    before, after = ({r.subject for r in side if r.subject} for side in (then, now))
    if before and after and not before & after:
        names = (", ".join(sorted(side)) for side in (before, after))
        raise BadInput("the runs have no subject in common: {} before, {} now".format(*names))


def verdict_differences(
    before: Mapping[Place, Judged], after: Mapping[Place, Judged]
) -> Iterator[ResultDifference]:
    """A verdict that was ok is worse where it is not now, is gone, or has fewer cases; any other
    where it is wrong now and was not, or is new. A failure that is gone is not worse."""
    for place in dict.fromkeys((*before, *after)):
        then, now = before.get(place), after.get(place)
        verdict, reason = SAME, now.reason if now and now.status != "ok" else None
        if now is None:
            verdict = WORSE if then and then.status == "ok" else GONE
            reason = "it is no longer checked"
        elif now.wrong and not (then and then.wrong):
            verdict = WORSE
        elif then is None:
            verdict = NEW
        elif then.wrong and now.status != "ok" and not now.wrong:
            verdict = GONE
        elif (then.status == "ok") != (now.status == "ok"):
            verdict = MENDED if now.status == "ok" else WORSE
        elif now.status == "ok" and now.cases < then.cases:
            verdict, reason = WORSE, f"fewer cases: {now.cases} instead of {then.cases}"
        yield ResultDifference(
            subject=place[0],
            metric=place[1],
            workload=place[2],
            verdict=verdict,
            before=then.status if then else None,
            after=now.status if now else None,
            reason=reason,
        )


def judged(measurements: Sequence[Measurement], subject: str = "") -> dict[Place, Judged]:
    """The verdict of each probe on a subject's own cases."""
    return {
        (subject or m.subject, m.metric, ""): Judged(
            status=m.status, cases=len(m.samples), reason=m.reason
        )
        for m in measurements
        if m.metric not in (*CELL_METRICS, *NO_VERDICTS)
    }


def _verdicts(side: RunRecords) -> dict[Place, Judged]:
    return {
        (r.subject, r.metric, r.workload.name if r.workload else r.cell): Judged(
            status=r.status, cases=len(r.samples), reason=r.reason
        )
        for r in side
        if (r.stage in CHECKING or is_verdict(r))
        and r.subject
        and r.metric not in (*CELL_METRICS, *NO_VERDICTS)
    }


def _times(before: RunRecords, after: RunRecords) -> Iterator[ResultDifference]:
    """Every time of the earlier run, less those without a passed check."""
    from assay.laws.regression import changes, lost_times
    from assay.reports.unchecked import refuse_unchecked

    then, now = refuse_unchecked(before), refuse_unchecked(after)
    apart = _apart(before, after)
    for lost in lost_times(now, then):
        yield ResultDifference(
            subject=lost.subject,
            metric=lost.metric,
            workload=lost.workload,
            verdict=UNJUDGED if apart else WORSE,
            before="ok",
            after=lost.status,
            reason=apart or lost.reason or "it is no longer timed",
        )
    for change in changes(now, then):
        why = apart or (_NO_NOISE if change.threshold is None else None)
        yield ResultDifference(
            subject=change.subject,
            metric=change.metric,
            workload=change.workload,
            verdict=UNJUDGED if why else SLOWER if change.slower else SAME,
            ratio=None if apart else change.ratio,
            low=None if apart else change.low,
            high=None if apart else change.high,
            reason=why,
        )


def _apart(before: RunRecords, after: RunRecords) -> str | None:
    """The reason not to judge times of two sides; None on the same device of the same machine. A
    part of a run does not know its device, and is taken to be of the other's."""
    if {record.host for record in before} != {record.host for record in after}:
        return "the machines differ"
    then, now = (_devices(side) for side in (before, after))
    if len(then | now) > 1:
        words = (", ".join(sorted(devices)) or "not known" for devices in (then, now))
        return "the devices differ ({} before, {} now)".format(*words)
    return None


def _devices(side: RunRecords) -> set[str]:
    """The devices of the runs that records are of, which only run.json says."""
    from assay.records.run import open_run

    runs = [open_run(folder)[1] for folder in side.folders]
    return {", ".join(run.devices) for run in runs if run.devices}


def _columns(rows: Sequence[ResultDifference]) -> dict[str, list[Any]]:
    return {
        name: [getattr(each, name) for each in rows] for name in ResultDifference.__annotations__
    }


def _words(worse: ResultDifference) -> str:
    place = f" on {worse.workload}" if worse.workload else ""
    if worse.ratio is not None:
        times = f"{worse.ratio:.2f}x its time before ({worse.low:.2f} to {worse.high:.2f})"
        return f"{worse.subject}: {worse.metric}{place} takes {times}"
    before = f"{worse.before} before" if worse.before else "not checked before"
    return f"{worse.subject}: {worse.metric}{place}, {before}: {worse.reason}"
