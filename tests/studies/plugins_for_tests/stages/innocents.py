"""Cells in which somebody else is to blame: a peer, a stranger, the disk."""

import os
import threading
import time
from pathlib import Path

from assay.records.schema import Measurement
from assay.studies.cell import Cell
from assay.subjects.outcome import Begin, outcome_of

FULL = "/dev/full"  # every write fails there for want of space


def _results() -> int:
    """The descriptor to which this process writes its results."""
    open_files = {
        int(p.name): os.readlink(p) for p in Path("/proc/self/fd").iterdir() if p.exists()
    }
    return next(n for n, name in open_files.items() if name.endswith("result.jsonl"))


def leaves_a_thread():
    threading.Thread(target=time.sleep, args=(600,)).start()


def writes_junk():
    os.write(_results(), b'{"metric": 3}\n')


def names_a_stranger():
    yield Begin("nobody")
    os.abort()


def fills_the_disk():
    if os.environ.get("ASSAY_TEST_FULL"):
        try:
            Path(FULL).write_text("a cache")
        except OSError as error:
            yield outcome_of(error, subject="fills_the_disk", metric="turn")


WAYS = {
    way.__name__: way for way in (leaves_a_thread, writes_junk, names_a_stranger, fills_the_disk)
}


def cells(study):
    return [Cell(name=name, subjects=("first", name)) for name in WAYS]


def run(cell):
    for subject in cell.subjects:
        yield Begin(subject)
        if subject in WAYS:
            yield from WAYS[subject]() or ()
        yield Measurement(metric="turn", value=1.0, unit="", subject=subject)
