"""Cells that start a process in a session of its own, whose parent ends at once."""

import os
import time

from _diary import begin

from assay.devices import memory_bytes
from assay.records.schema import Measurement
from assay.studies.cell import Cell


def cells(study):
    limit_bytes = memory_bytes() * study.cell_memory_percent // 100
    return [Cell(name=name, options={"limit": limit_bytes}) for name in ("ends", "eats", "stays")]


def run(cell):
    ready, tell = os.pipe()
    if (middle := os.fork()) == 0:
        os.setsid()
        if os.fork() == 0:
            begin(f"stray of {cell.name}")
            os.write(tell, b".")
            eaten = b"x" * (2 * cell.options["limit"] if cell.name == "eats" else 0)
            time.sleep(600 + len(eaten))
        os._exit(0)
    os.waitpid(middle, 0)
    os.read(ready, 1)
    if cell.name != "ends":
        begin(cell.name)
        time.sleep(600)
    yield Measurement(metric="started", value=1.0, unit="1")
