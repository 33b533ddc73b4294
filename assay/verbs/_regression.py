"""`assay bench --against RUN`: has something become slower?"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assay.errors import DOES_NOT_HOLD, HOLDS, BadInput

if TYPE_CHECKING:
    from assay.records.schema import Record, Run

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
        from assay.records.run import plugins_named_by
        from assay.studies.config_file import unquote

        left_out = ("IMPLEMENTATIONS",) if plugins_named_by(self.run) else ()
        known = (s for s in _TAKEN if s in self.run.config and s not in left_out)
        return [f"{symbol}={unquote(self.run.config[symbol])}" for symbol in known]

    def judge(self, records: "Sequence[Record]") -> int:
        """Show what changed; 1 where something is slower beyond the noise."""
        from assay.laws.regression import changes
        from assay.reports.law_tables import changes_table
        from assay.reports.terminal import console, show

        compared = changes(records, self.records)
        if not compared:
            raise BadInput("nothing was timed in both runs; compare the same workloads")
        show(changes_table(compared, self.run.run), console())
        return DOES_NOT_HOLD if any(change.slower for change in compared) else HOLDS
