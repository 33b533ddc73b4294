"""Cells that stream: each batch is made from the state after the one before it."""

import json
import os
import time

from _diary import begin

from assay.records.durable import write_atomically
from assay.records.schema import Measurement
from assay.studies.cell import Batch, Cell

STREAMS = True
BATCHES = 8
CELLS = 3


def cells(study):
    return [Cell(name=f"walk{number}", options={"number": number}) for number in range(CELLS)]


def run(cell):
    begin(cell.name)
    state = cell.folder / "state.json"
    done, place = json.loads(state.read_bytes()) if state.exists() else (0, cell.options["number"])
    if done > cell.durable_batches:
        raise AssertionError(f"state {done} of {cell.durable_batches} durable batches")
    while done < BATCHES:
        done, place = done + 1, (31 * place + done) % 10_007
        mishap = _mishap(cell, done)
        time.sleep(float(os.environ.get("ASSAY_TEST_STEP_S", 0)))
        begin(f"{cell.name}:{done}")
        values = {"place": place, "half": place / 2, "square": place**2}
        measured = [Measurement(metric=m, value=float(v), unit="") for m, v in values.items()]
        measured += mishap
        yield Batch(done, BATCHES, measured)
        write_atomically(state, json.dumps([done, place]).encode())
    yield Measurement(metric="end", value=float(place), unit="")


def _mishap(cell, number):
    """Do what ASSAY_TEST_MISHAP says, such as `walk1:3:abort`: cell, batch, and what happens."""
    name, batch, what = os.environ.get("ASSAY_TEST_MISHAP", "::").split(":")
    if (name, batch) == (cell.name, str(number)):
        if what == "abort":
            os.abort()
        if what == "sleep":
            begin("asleep")
            time.sleep(600)
        if what == "fail":
            return [Measurement(metric="fall", value=None, unit="", status="failed", reason="ice")]
    return []
