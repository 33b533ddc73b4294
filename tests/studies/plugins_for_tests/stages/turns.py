"""Cells with several subjects, some of which bring the process down."""

import os
import sys

from assay.records.schema import Measurement
from assay.studies.cell import Cell
from assay.subjects.outcome import Begin

SUBJECTS = {
    "one crashes": ("a", "crashes", "b", "refuses", "c"),
    "two crash": ("crashes", "a", "crashes too", "b"),
    "before any turn": ("a", "b"),
    "before its turn, alone": ("a", "crashes", "b"),
}


def cells(study):
    return [Cell(name=name, subjects=subjects) for name, subjects in SUBJECTS.items()]


def run(cell):
    if cell.name == "before any turn" or (
        cell.name == "before its turn, alone" and cell.subjects == ("b",)
    ):
        sys.exit("not even begun")
    for subject in cell.subjects:
        yield Begin(subject)
        yield Measurement(metric="half", value=float(len(cell.subjects)), unit="", subject=subject)
        if subject.startswith("crashes"):
            os.abort()
        elif subject == "refuses":
            yield Measurement(
                metric="turn", value=None, unit="", subject=subject, status="oom", reason="large"
            )
        else:
            yield Measurement(metric="turn", value=1.0, unit="", subject=subject)
