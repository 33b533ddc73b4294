"""A cell to run, as engines take it, and what they hand back."""

from dataclasses import dataclass
from pathlib import Path

from assay.records.run import RunFolder
from assay.records.schema import Measurement, Stamp
from assay.studies.cell import Cell


@dataclass(frozen=True, kw_only=True)
class CellLimits:
    """Time and memory that one cell's process may take."""

    timeout_s: float
    case_timeout_s: float
    memory_bytes: int


@dataclass(frozen=True, kw_only=True)
class Job:
    """A cell to run, and what its records will share."""

    cell: Cell
    run_folder: RunFolder
    stamp: Stamp
    limits: CellLimits
    logs: Path | None = None  # for what the process prints; None: the folder of its stage
    capture: bool = True  # False: assay.capturing() does nothing in its process

    @property
    def stage(self) -> str:
        return self.stamp.stage

    @property
    def folder(self) -> Path:
        """The folder for what the process prints."""
        return self.logs or self.run_folder.stage(self.stage)


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """Result of a job, from an engine: measurements of every subject, outcomes included."""

    job: Job
    measurements: list[Measurement]
    host: str  # fingerprint of the machine that it ran on
    seconds: float  # from its start to its end, waiting for a turn left out
