"""A cell of two subjects that stays with the second."""

import time

from _diary import begin

from assay.studies.cell import Cell
from assay.subjects.outcome import Begin


def cells(study):
    names = ("first", "second")
    return [Cell(name="both", subjects=names, probes=("presence",), kind="")]


def run(cell):
    for subject in cell.subjects:
        yield Begin(subject, "presence", "case 7")
        begin(subject)
    time.sleep(600)
