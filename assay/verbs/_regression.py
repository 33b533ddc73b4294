"""`assay bench --against RUN`: has something become slower?"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assay.errors import DOES_NOT_HOLD, HOLDS, BadInput

if TYPE_CHECKING:
    from assay.host import Host
    from assay.laws.regression import Change, LostTime
    from assay.records.check_answer import Answer
    from assay.records.schema import Record, Run
    from assay.reports.report import Report
    from assay.studies.study import Study

# What makes two runs comparable is taken from the earlier one, unless it is said again.
_TAKEN = (
    "IMPLEMENTATIONS",
    "PROBES",
    "WORKLOADS",
    "BATCHES",
    "HEADS",
    "LENGTHS",
    "HEAD_DIMS",
    "DTYPES",
    "MASKS",
    "ROUNDS",
    "WARMUP",
    "SEED",
)


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """A run to hold against, with what it timed."""

    run: "Run"
    records: "Sequence[Record]"

    @classmethod
    def read(cls, path: Path) -> "Earlier":
        """The run in a folder; one that timed nothing, or on another machine, is refused."""
        from assay import host
        from assay.records.run import load_records, open_run

        run, records = open_run(path)[1], load_records(path)
        timed = [record for record in records if record.stage == "bench" and record.samples]
        if not timed:
            raise BadInput(f"--against {path}: this run timed nothing; give one of `assay bench`")
        here = host.inspect().fingerprint
        if {record.host for record in timed} != {here}:
            raise BadInput(
                f"--against {path}: it was measured on another machine ({timed[0].host}, this is "
                f"{here}); measure both runs on one machine"
            )
        return cls(run=run, records=records)

    def settings(self) -> list[str]:
        """Settings of the earlier run, as SYMBOL=VALUE; files that it names are left out, for
        whoever runs them has to name them."""
        from assay.records.named_code import plugins_named_by
        from assay.studies.config_file import unquote

        left_out = ("IMPLEMENTATIONS",) if plugins_named_by(self.run) else ()
        known = (s for s in _TAKEN if s in self.run.config and s not in left_out)
        return [f"{symbol}={unquote(self.run.config[symbol])}" for symbol in known]

    def require_device(self, study: "Study", here: "Host") -> None:
        """Refuse to measure on another device than the earlier run did."""
        from assay.studies import plan

        device = plan.on_device(study, here).device
        if self.run.devices and self.run.devices != [device]:
            then = ", ".join(self.run.devices)
            raise BadInput(
                f"--against {self.run.run}: it was measured on {then}, this would be on {device}; "
                f"add --device {then.split(':')[0]}"
            )

    def show(self, report: "Report", records: "Sequence[Record]", *, verbose: bool) -> None:
        """Say first whether something is slower, then what changed, then what the run says."""
        from assay.reports.law_tables import changes_table
        from assay.reports.terminal import console, show
        from assay.verbs._running import show_report

        since = self._since(records)
        screen = console()
        answer = since.answer(report.answer)
        screen.print(str(answer), style="bold", markup=False, highlight=False)
        show(changes_table(since.compared, self.run.run), screen)
        show_report(report, verbose=verbose)

    def judge(self, records: "Sequence[Record]", *, aloud: bool) -> int:
        """1 where something is slower beyond the noise, lost, or nothing could be judged; `aloud`
        says so on stderr."""
        from assay.records.check_answer import PASS
        from assay.reports.answer import answer

        since = self._since(records)
        if aloud:
            print(since.answer(answer(records)), file=sys.stderr)
        return HOLDS if since.word == PASS else DOES_NOT_HOLD

    def _since(self, records: "Sequence[Record]") -> "Since":
        from assay.laws.regression import changes, lost_times

        compared, lost = changes(records, self.records), lost_times(records, self.records)
        # What was not asked for again has no record.
        since = Since(
            run=self.run.run, compared=compared, lost=[each for each in lost if each.reason]
        )
        if not (compared or since.lost):
            raise BadInput("nothing was timed in both runs; compare the same workloads")
        return since


@dataclass(frozen=True, kw_only=True)
class Since:
    """Times of a run held against those of an earlier, and those that it could not take."""

    run: str  # the earlier one
    compared: "Sequence[Change]"
    lost: "Sequence[LostTime]"

    @property
    def slower(self) -> "list[Change]":
        """Times that are slower beyond the noise, the worst last."""
        return sorted((each for each in self.compared if each.slower), key=lambda c: c.ratio)

    @property
    def unjudged(self) -> int:
        return sum(each.threshold is None for each in self.compared)

    @property
    def word(self) -> str:
        from assay.records.check_answer import FAIL, INCOMPLETE, PASS

        if self.slower or self.lost:
            return FAIL
        return INCOMPLETE if self.unjudged == len(self.compared) else PASS

    def answer(self, own: "Answer") -> str:
        """The verdict, the worst first; PASS only where the later run's `own` answer is."""
        from assay.records.check_answer import FAIL, PASS
        from assay.reports.numerals import counted

        times = counted(len(self.compared), "time")
        unjudged = f"; {self.unjudged:,} not judged: the noise was not measured"
        left = unjudged if self.unjudged else ""
        parts = []
        if self.slower:
            worst = self.slower[-1]
            parts.append(
                f"{len(self.slower)} of {times} slower than in {self.run}; the worst: "
                f"{worst.subject}, {worst.metric}, {worst.workload}: {worst.ratio:.2f}x its time "
                f"({worst.low:.2f} to {worst.high:.2f})"
            )
        if self.lost:
            first = self.lost[0]
            parts.append(
                f"{counted(len(self.lost), 'time')} of {self.run} lost, such as {first.subject}, "
                f"{first.metric}, {first.workload}: {first.reason}"
            )
        if parts:
            return f"{FAIL}  {'; '.join(parts)}{left}"
        if self.word != PASS:
            text = f"none of {times} could be judged against {self.run}: the noise was not measured"
            return f"{FAIL if own.word == FAIL else self.word}  {text}"
        text = f"none of {times} is slower than in {self.run} beyond the noise{left}"
        return f"{own.word}  {text}" + ("" if own.word == PASS else "; the run itself: see below")
