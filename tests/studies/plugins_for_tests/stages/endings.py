"""Cells that end in every way a process can end."""

import os
import signal
import sys
import time
from collections.abc import Callable

from assay.records.schema import Measurement
from assay.studies.cell import Cell

REAL_TIME_SIGNAL = 40


def _value():
    return Measurement(metric="answer", value=42.0, unit="")


def fine_first():
    print("printed to stdout")
    print("printed to stderr", file=sys.stderr)
    yield _value()


def aborts():
    print("said before the abort")
    os.abort()
    yield _value()


def is_killed():
    yield _value()
    os.kill(os.getpid(), signal.SIGKILL)


def exits_with_3():
    yield _value()
    sys.exit(3)


def exits_with_0():
    yield _value()
    sys.exit(0)


def raises():
    yield _value()
    raise ValueError("what went wrong")


def hangs():
    yield _value()
    time.sleep(600)


def gets_a_real_time_signal():
    os.kill(os.getpid(), REAL_TIME_SIGNAL)
    yield _value()


def yields_a_dict():
    yield {"metric": "answer", "value": 42.0, "unit": ""}


def yields_half_a_dict():
    yield {"metric": "answer", "unit": ""}


def yields_none():
    yield None


def yields_a_nan():
    yield Measurement(metric="answer", value=float("nan"), unit="")


def yields_nothing():
    yield from ()


def fine_last():
    yield _value()


WAYS: tuple[Callable, ...] = (
    fine_first,
    aborts,
    is_killed,
    exits_with_3,
    exits_with_0,
    raises,
    hangs,
    gets_a_real_time_signal,
    yields_a_dict,
    yields_half_a_dict,
    yields_none,
    yields_a_nan,
    yields_nothing,
    fine_last,
)


def cells(study):
    return [Cell(name=way.__name__) for way in WAYS]


def run(cell):
    yield from next(way for way in WAYS if way.__name__ == cell.name)()
