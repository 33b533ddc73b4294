"""Claims measured again: the command of each, run once for all claims that share it.

A figure is confirmed, not confirmed, or not comparable. A time of another machine says nothing of
this one, so there only numbers without a unit of measurement (ratios, shares, counts) are compared.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from assay.errors import BadInput
from assay.instruments.start_method import finding_us, own_python
from assay.records.run import load_records, newest_run
from assay.records.schema import Record
from assay.reports.table import Table
from assay.reports.terminal import console, show
from assay.verify import evidence
from assay.verify.claim import Claim, select, statistic

Word = Literal["confirmed", "not confirmed", "not comparable", "not tested"]
_LOG_LINES = 3  # of a command that failed
_WITHOUT_UNIT = ("", "ratio", "share", "count", "elements")


@dataclass(frozen=True, kw_only=True)
class RepeatedFigure:
    """A figure beside the one that was measured again."""

    word: Word
    reason: str
    before: float | None = None
    again: float | None = None


def judge(claim: Claim, records: Sequence[Record]) -> RepeatedFigure:
    """Hold the bounds of a claim against records that the same command has just left."""
    try:
        kept = _figure(claim, evidence.load(claim.records.evidence))
        new = _figure(claim, records)
    except BadInput as error:
        return RepeatedFigure(word="not tested", reason=str(error))
    before, again = kept[1], new[1]
    measured = {"before": before, "again": again}
    if kept[0].host != new[0].host and new[0].unit not in _WITHOUT_UNIT:
        reason = f"{new[0].unit} of another machine"
        return RepeatedFigure(word="not comparable", reason=reason, **measured)
    word = "confirmed" if claim.holds.allows(again) else "not confirmed"
    return RepeatedFigure(word=word, reason=claim.holds.bounds, **measured)


def _figure(claim: Claim, records: Sequence[Record]) -> tuple[Record, float]:
    record = select(claim.records, records)
    value = statistic(claim, record)
    if claim.against is None:
        return record, value
    return record, value / statistic(claim, select(claim.against, records))


def measure_again(claims: Mapping[str, Claim]) -> bool:
    """Run the commands of some claims, show what came of them, and say whether all hold."""
    repeated: dict[str, RepeatedFigure] = {}
    for command in dict.fromkeys(stated.again for stated in claims.values() if stated.again):
        print(f"measuring again: assay {command}", file=sys.stderr)
        repeated |= _repeated(command, {n: c for n, c in claims.items() if c.again == command})
    words = [figure.word for figure in repeated.values()]
    counts = ", ".join(f"{words.count(word)} {word}" for word in sorted(set(words)))
    print(f"{'PASS' if _all_hold(repeated) else 'FAIL'}  measured again: {counts or 'nothing'}")
    rows = tuple(
        (f.word, name, _number(f.before), _number(f.again), f.reason)
        for name, f in sorted(repeated.items(), key=lambda item: (item[1].word, item[0]))
    )
    columns = ("verdict", "claim", "recorded", "again", "why")
    show(Table(title="Measured again", columns=columns, rows=rows), console())
    return _all_hold(repeated)


def _repeated(command: str, claims: Mapping[str, Claim]) -> dict[str, RepeatedFigure]:
    with TemporaryDirectory(prefix="assay-again-") as folder:
        arguments = own_python("assay", *shlex.split(command), "--out", folder)
        done = subprocess.run(
            arguments, env=finding_us(os.environ), capture_output=True, text=True, check=False
        )
        try:
            records = load_records(newest_run(Path(folder)))
        except BadInput:
            last = " ".join(done.stderr.strip().splitlines()[-_LOG_LINES:])
            reason = f"it ended with {done.returncode} and no records: {last}"
            return {name: RepeatedFigure(word="not tested", reason=reason) for name in claims}
        return {name: judge(stated, records) for name, stated in claims.items()}


def _all_hold(repeated: Mapping[str, RepeatedFigure]) -> bool:
    return all(f.word in ("confirmed", "not comparable") for f in repeated.values())


def _number(value: float | None) -> str:
    return "—" if value is None else f"{value:.4g}"
