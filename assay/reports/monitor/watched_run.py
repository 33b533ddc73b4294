"""A run that trains, looked at from outside: which one, and its snapshot at this moment.

Only records and run.json are read, and of records only what is new since the last look. Nothing is
written, started or loaded.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from assay.errors import BadInput
from assay.records.run import RUN_FILE, RunFolder, archived_records, open_run, read_done, runs_below
from assay.records.schema import MODELS, Record, Run
from assay.records.tail import LogTail
from assay.reports.monitor.cells import RunFacts
from assay.reports.monitor.plan import plan_of, stages_of, trains
from assay.reports.monitor.snapshot import Snapshot, take
from assay.reports.monitor.state import CellState, fold
from assay.reports.training_rows import STAGE

_HOST = "host"  # the stage that measures the rate of large products
_RATE = "matmul_rate"


@dataclass(kw_only=True)
class WatchedRun:
    """A run's folder and what was read of it until now."""

    folder: RunFolder
    tails: dict[str, LogTail] = field(default_factory=dict)  # by stage
    states: dict[str, CellState] = field(default_factory=dict)
    examined: dict[str, None] = field(default_factory=dict)  # models, in order
    ceilings: dict[str, float] = field(default_factory=dict)
    archived: bool = False

    @property
    def begun(self) -> bool:
        """True where anything of training is recorded."""
        return bool(self.states)

    def look(self) -> Snapshot:
        """The run now. BadInput where a log or run.json cannot be read."""
        held = self.folder.is_held()  # first: what ends meanwhile is seen as ended next time
        run = open_run(self.folder.path)[1]
        self._read()
        facts = RunFacts(
            folder=str(self.folder.path),
            run=run,
            held=held,
            done=read_done(self.folder, STAGE),
            others=self._before_training(run),
            ceilings=self.ceilings,
            now=datetime.now(UTC),
        )
        arms = [state.arm for state in self.states.values()]
        return take(facts, plan_of(run, list(self.examined), arms), self.states)

    def _read(self) -> None:
        if self.folder.archive.is_file():
            if not self.archived:
                self._take(archived_records(self.folder))
                self.archived = True
            return
        for stage in (_HOST, MODELS, STAGE):
            tail = self.tails.setdefault(stage, LogTail(path=self.folder.log(stage)))
            self._take(tail.new_records())

    def _take(self, records: list[Record]) -> None:
        fold(self.states, (record for record in records if record.stage == STAGE))
        for record in records:
            if record.stage == MODELS and record.subject:
                self.examined.setdefault(record.subject)
            if record.stage == _HOST and record.metric == _RATE and record.value:
                self.ceilings[record.subject] = record.value

    def _before_training(self, run: Run) -> str:
        """Words for a run whose training has not begun; empty once it has."""
        if self.archived or self.folder.stage(STAGE).is_dir():
            return ""
        begun = [name for name in stages_of(run) if self.folder.stage(name).is_dir()]
        at_work = [name for name in begun if not self.folder.done_file(name).is_file()]
        words = f"the stage {at_work[-1]} is at work" if at_work else "no stage is at work yet"
        return f"training has not begun: {words}"


def find_run(path: Path | None, results: Path) -> RunFolder:
    """The run to watch: the one in the folder `path`, else the newest below it or `results` that
    trains. BadInput where there is none."""
    if path and (path / RUN_FILE).is_file():
        run = open_run(path)[1]
        if not trains(run):
            raise BadInput(
                f"{path} trains nothing: its stages are {', '.join(stages_of(run)) or 'unknown'}; "
                "give a run of `assay train`, or of a study with the stage train"
            )
        return RunFolder(path=path)
    if path and not path.is_dir():
        raise BadInput(
            f"there is no folder {path}; give the folder of a run, as results/<study>/<run_id>, or "
            "that of a study, or leave it out for the newest run"
        )
    folders = _below(path) if path else runs_below(results)
    for folder in sorted(folders, key=lambda folder: folder.path.name, reverse=True):
        with suppress(BadInput):  # a run that cannot be read is not the one that is meant
            if trains(open_run(folder.path)[1]):
                return folder
    raise BadInput(
        f"there is no run that trains in {path or results} ({len(folders)} other runs); start one "
        "with `assay train`, or give a run's folder"
    )


def _below(path: Path) -> list[RunFolder]:
    """The runs of a study's folder, or of a results folder."""
    own = [RunFolder(path=file.parent) for file in path.glob(f"*/{RUN_FILE}")]
    return own or runs_below(path)


def require_training(watched: WatchedRun) -> None:
    """Refuse a run of which nothing is recorded and that nobody is running."""
    if not watched.begun and not watched.folder.is_held():
        raise BadInput(
            f"{watched.folder.path} has no record of training, and no process runs it; go on with "
            f"it by `assay study resume {watched.folder.path}`, or give another run"
        )
