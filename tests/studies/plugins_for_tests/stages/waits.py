"""Cells that take a known time."""

import time

from _diary import begin

from assay.records.schema import Measurement
from assay.studies.cell import Cell

SECONDS = {"long": 3.0, "short": 0.5, "longer": 4.0}


def cells(study):
    return [Cell(name=name) for name in SECONDS]


def run(cell):
    begin(cell.name)
    start = time.monotonic()
    time.sleep(SECONDS[cell.name])
    yield Measurement(metric="waited", value=time.monotonic() - start, unit="s")
    yield Measurement(metric="began", value=start, unit="s")
