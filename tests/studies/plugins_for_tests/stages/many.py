"""Thirty quick cells with several records each."""

from _diary import begin

from assay.records.schema import Measurement
from assay.studies.cell import Cell

CELLS = 30
RECORDS = 5


def cells(study):
    return [Cell(name=f"cell{number:02}", options={"number": number}) for number in range(CELLS)]


def run(cell):
    begin(cell.name)
    for index in range(RECORDS):
        value = float(100 * cell.options["number"] + index)
        yield Measurement(metric=f"metric{index}", value=value, unit="", samples=[value] * 10)
