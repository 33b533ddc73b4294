"""Three cells, the second of which sleeps or fails where ASSAY_TEST_NAP says so."""

import os
import subprocess
import time

from _diary import begin

from assay.records.schema import Measurement
from assay.studies.cell import Cell


def cells(study):
    return [Cell(name=name) for name in ("before", "nap", "after")]


def run(cell):
    begin(cell.name)
    mood = os.environ.get("ASSAY_TEST_NAP") if cell.name == "nap" else None
    if mood == "sleep with child":
        child = subprocess.Popen(["sleep", "600"])
        with open(os.environ["ASSAY_TEST_DIARY"], "a") as file:
            file.write(f"child {child.pid}\n")
    if mood == "fail":
        raise RuntimeError("a bad dream")
    if mood:
        time.sleep(600)
    yield Measurement(metric="answer", value=42.0, unit="")
