"""A cell with two implementations, one of which needs a package that is not installed."""

from _diary import begin

from assay.records.schema import Measurement
from assay.studies.cell import Cell
from assay.subjects.outcome import Begin


def cells(study):
    return [Cell(name="both", subjects=("needs_a_thing", "needs_nothing"), probes=("presence",))]


def run(cell):
    for subject in cell.subjects:
        begin(subject)
        yield Begin(subject)
        yield Measurement(metric="presence", value=1.0, unit="", subject=subject)
