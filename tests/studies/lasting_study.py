"""A study of one stage, run in this process, whose cells may be reused."""

from pathlib import Path

from assay import host
from assay.records.schema import Record
from assay.studies import execute, kconfig, session
from assay.studies.study import Study

STAGE = """
from pathlib import Path
from assay.records.schema import MACHINE_LOAD, Measurement
from assay.studies.cell import Cell

REUSABLE_H = 24
DIARY = Path(__file__).with_name("diary")


def cells(study):
    return [Cell(name="number")]


def run(cell):
    with open(DIARY, "a") as diary:
        diary.write("ran ")
    yield Measurement(metric="number", value=1.0, unit="")
"""


class Notes:
    """Keeps what an observer is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def stage(self, name: str, due: int, total: int) -> None:
        self.notes.append(f"{due} of {total}")

    def cell(self, *_: object) -> None: ...

    def note(self, text: str) -> None:
        self.notes.append(text)


class Lasting:
    """A study of one stage whose cells may be reused."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "plugins" / "stages" / "lasting.py"
        self.file.parent.mkdir(parents=True)
        self.file.write_text(STAGE)

    def run(self, *, reuse: bool = True) -> tuple[list[Record], list[str]]:
        """Current records of a new run, and what was told of it."""
        notes = Notes()
        with session.started(self.study, host.inspect(), self.results, "s", reuse=reuse) as active:
            return execute.execute(active, notes), notes.notes

    @property
    def study(self) -> Study:
        return kconfig.load(None, ["STAGES=lasting"], [self.folder / "plugins"])

    @property
    def results(self) -> Path:
        return self.folder / "results"

    @property
    def times_run(self) -> int:
        return (self.file.parent / "diary").read_text().count("ran")

    def rewrite(self, before: str, after: str) -> None:
        """Change the logs of all runs until now."""
        for log in self.folder.glob("results/*/*/stages/*/metrics.jsonl"):
            text = log.read_text()
            assert before in text
            log.write_text(text.replace(before, after))
