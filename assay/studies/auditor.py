"""Numbers of a cell that cannot be true, refused before they are recorded."""

from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType

import msgspec

from assay.performance import audit
from assay.records.schema import Measurement, Record
from assay.studies.cell import Cell
from assay.studies.job import CellResult
from assay.studies.stages.host import PEAKS

HOST = "host"  # the stage that measures ceilings


class Auditor:
    """Holds each cell's numbers against each other and against the ceilings of the run.

    A machine that was busy when its ceilings were measured has them too low: before a number is
    refused for being above one, they are measured again, at most once in a stage.
    """

    def __init__(self, engine: ModuleType, earlier: Sequence[Record]) -> None:
        self._engine = engine
        self._ceilings: list[Measurement] = [r for r in earlier if r.stage == HOST]
        self._measured_again = False

    def believed(self, result: CellResult) -> CellResult:
        """The result of a cell without the values that break an invariant."""
        if result.job.cell.workload is None:
            return result
        broken = audit.violations(result.measurements, self._ceilings)
        if any(v.by_ceiling for v in broken.values()) and not self._measured_again:
            self._measure_again(result)
            broken = audit.violations(result.measurements, self._ceilings)
        return replace(result, measurements=audit.refused(result.measurements, broken))

    def _measure_again(self, result: CellResult) -> None:
        device = result.job.cell.device
        cell = Cell(name=f"{PEAKS}{device}", subjects=(device,), device=device)
        stamp = msgspec.structs.replace(result.job.stamp, stage=HOST, cell=cell.name)
        (again,) = self._engine.run([replace(result.job, stamp=stamp, cell=cell)])
        self._ceilings += again.measurements
        self._measured_again = True
