"""Verdicts on claims: supported, partly, unsupported, refuted or not tested."""

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from assay.errors import BadInput
from assay.laws.pairs import FEWEST_ROUNDS, interval_of_median
from assay.records.schema import Record
from assay.verify import evidence
from assay.verify.checks.cases import SUITES
from assay.verify.claim import STATISTICS, Claim, RecordSelection, select, statistic
from assay.verify.compared import ComparedRun, RunComparison, load
from assay.verify.finding import CheckFinding
from assay.verify.judgement import judge as judge_runs

# Units that a sentence may give; one that is not here is not compared.
_UNITS = ("s", "ms", "us", "GB/s", "TB/s", "TFLOP/s", "MB/s", "B", "W", "MHz")
Word = Literal["supported", "partly", "unsupported", "refuted", "not tested"]


@dataclass(frozen=True, kw_only=True)
class ClaimVerdict:
    """The word, why, and the figure with the interval of its median where it has one."""

    word: Word
    reason: str
    value: float | None = None
    interval: tuple[float, float] | None = None


def judge(claim: Claim) -> ClaimVerdict:
    """Hold a claim against its evidence, and the evidence against the checks of one run."""
    chosen = [claim.records, *([claim.against] if claim.against else [])]
    for selection in [*chosen, *([claim.control] if claim.control else [])]:
        if not (evidence.FOLDER / selection.evidence).is_dir():
            return ClaimVerdict(
                word="not tested", reason=f"there is no evidence/{selection.evidence} here"
            )
    try:
        sides = [select(selection, _run(selection.evidence).records) for selection in chosen]
        value = _figure(claim, sides)
        control = _control(claim)
    except BadInput as error:
        return ClaimVerdict(word="unsupported", reason=str(error))
    interval = _interval(claim, sides)
    word, reason = _word(claim, sides, value, interval)
    if control is not None and claim.holds.allows(control):
        word = "unsupported"
        reason = f"its negative control is within the bounds too, at {control:.6g}"
    if word == "supported":
        pairs = zip(chosen, sides, strict=True)
        wrong = [f"{f.check}: {f.reason}" for pair in pairs for f in _failures(*pair)]
        if wrong:
            word, reason = "partly", f"it holds, but {'; '.join(dict.fromkeys(wrong))}"
    return ClaimVerdict(word=word, reason=reason, value=value, interval=interval)


def _word(
    claim: Claim, sides: list[Record], value: float, interval: tuple[float, float] | None
) -> tuple[Word, str]:
    if claim.level and any(side.level != claim.level for side in sides):
        return "unsupported", f"it speaks of the level {claim.level}, and its record does not"
    if unlike := _unlike(sides):
        return "unsupported", f"the two sides of its ratio differ in {unlike}"
    if wrong := _misworded(claim, sides):
        return "unsupported", wrong
    if not claim.holds.allows(value):
        reaches = interval and any(claim.holds.allows(end) for end in interval)
        wanted = f"{claim.holds.statistic} is {value:.6g}, wanted {claim.holds.bounds}"
        return ("unsupported" if reaches else "refuted"), wanted
    digits = len(claim.holds.shown.partition(".")[2])
    if round(value, digits) != float(claim.holds.shown.replace(",", "")):
        return "unsupported", f"it prints {claim.holds.shown}, its record says {value:.6g}"
    figure = f"{claim.holds.statistic} is {value:.6g}, {claim.holds.bounds}"
    if interval and not all(claim.holds.allows(end) for end in interval):
        ends = "{:.6g} to {:.6g}".format(*interval)
        return "partly", f"{figure}, but its 95 % interval is {ends}"
    return "supported", figure


def _figure(claim: Claim, sides: list[Record]) -> float:
    if (ratios := _paired(sides)) and claim.holds.statistic in STATISTICS:
        return STATISTICS[claim.holds.statistic](ratios)
    values = [statistic(claim, side) for side in sides]
    return values[0] / values[1] if len(values) > 1 else values[0]


def _control(claim: Claim) -> float | None:
    """The figure of the negative control, by itself or over the other side."""
    if claim.control is None:
        return None
    chosen = [claim.control, *([claim.against] if claim.against else [])]
    sides = [select(each, _run(each.evidence).records) for each in chosen]
    own = select(claim.records, _run(claim.records.evidence).records)
    if (sides[0].metric, sides[0].unit) != (own.metric, own.unit):
        raise BadInput(f"its negative control is {sides[0].metric}, its record {own.metric}")
    return _figure(claim, sides)


def _interval(claim: Claim, sides: list[Record]) -> tuple[float, float] | None:
    samples = _paired(sides) if len(sides) > 1 else sides[0].samples
    if claim.holds.statistic != "median" or len(samples) < FEWEST_ROUNDS:
        return None
    return interval_of_median(tuple(samples))


def _paired(sides: list[Record]) -> list[float]:
    """Ratios of rounds that were measured side by side; none of records of different cells."""
    if len(sides) < 2 or len({(s.run, s.stage, s.cell) for s in sides}) > 1:
        return []
    own, other = (side.samples for side in sides)
    return [a / b for a, b in zip(own, other, strict=False)]


def _unlike(sides: list[Record]) -> str:
    """Names of what two sides of a ratio must share and do not."""
    shared = {
        "metric": {side.metric for side in sides},
        "level": {side.level for side in sides},
        "unit": {side.unit for side in sides},
        "dtype": {_dtype(side) for side in sides},
        "machine": {side.host for side in sides},
        "workload": {str(side.workload.spec) if side.workload else "" for side in sides},
    }
    return ", ".join(name for name, values in shared.items() if len(values) > 1)


def _misworded(claim: Claim, sides: list[Record]) -> str | None:
    """Say where the sentence has not the figure, or has it with another unit than the record."""
    shown = re.escape(claim.holds.shown)
    printed = re.search(rf"(?<![\d.,]){shown}(?![\d]|[.,]\d)\s?(\S*)", claim.says)
    if printed is None:
        return f"its sentence does not say {claim.holds.shown}"
    word = printed[1].rstrip(".,;:)")
    if len(sides) == 1 and word in _UNITS and sides[0].unit in _UNITS and word != sides[0].unit:
        return f"its sentence says {word}, its record {sides[0].unit}"
    return None


def _dtype(record: Record) -> str | None:
    return record.workload.spec.get("dtype") if record.workload else None


@cache
def _run(name: str) -> ComparedRun:
    return load(evidence.FOLDER / name)


def _failures(selection: RecordSelection, side: Record) -> list[CheckFinding]:
    """Failures of the checks of one run, on what lies behind a record."""
    run = _run(selection.evidence)
    behind = tuple(record for record in run.records if _is_behind(record, side))
    findings = judge_runs(RunComparison(runs=(replace(run, records=behind),)))
    # One cell is a claim's own; that the others are there is asked of a run.
    return [f for f in findings if f.verdict == "fails" and f.check != "complete"]


def _is_behind(record: Record, side: Record) -> bool:
    """A record of the machine, of the same subject's correctness and training, or of the same cell;
    but not what its peers there could not do."""
    if record.subject == side.subject and record.stage in (*SUITES, "train"):
        return True
    same_cell = (record.stage, record.cell) == (side.stage, side.cell)
    is_measured = record.subject == side.subject or record.value is not None
    return record.stage == "host" or (same_cell and is_measured)
