"""Two cells that depend on this file and on one beside it."""

from _diary import begin
from _number import NUMBER

from assay.records.schema import Measurement
from assay.studies.cell import Cell

NAMES = ("first", "second")


def cells(study):
    return [Cell(name=name) for name in NAMES]


def run(cell):
    begin(cell.name)
    yield Measurement(metric="number", value=NUMBER, unit="")
