"""Cells in which one of three subjects misbehaves; CAMPAIGN_WAYS names the ways, with commas."""

import importlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from assay.records.schema import Measurement
from assay.studies.cell import Cell
from assay.studies.study import Study
from assay.subjects.outcome import Begin

_CHILDREN = 60
_MOST_BYTES = 3 << 30
_PRINTED_BYTES = 100 << 20


def _note() -> None:
    """Add this process to the diary."""
    with open(os.environ["ASSAY_TEST_DIARY"], "a") as file:
        file.write(f"stray {os.getpid()}\n")


def hangs() -> None:
    time.sleep(3600)


def exits() -> None:
    os._exit(0)


def interrupts() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def raises_at_import() -> None:
    importlib.import_module("_raises")


def forks() -> None:
    """A fork bomb with an end: children that only wait."""
    for _ in range(_CHILDREN):
        if os.fork() == 0:
            _note()
            time.sleep(3600)


def detaches() -> None:
    """A grandchild in a session of its own, without this environment."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            _note()
            os.execve("/bin/sleep", ["sleep", "3600"], {})
        os._exit(0)


def eats_memory() -> None:
    eaten = []
    while sum(map(len, eaten)) < _MOST_BYTES:
        eaten.append(b"x" * (16 << 20))
        time.sleep(0.02)


def writes_junk() -> None:
    """Junk to whatever file this process has open for its results."""
    for link in Path("/proc/self/fd").iterdir():
        if link.exists() and os.readlink(link).endswith("result.jsonl"):
            os.write(int(link.name), b'{"metric": 3}\n{"end": true}\n')


def prints() -> None:
    for _ in range(_PRINTED_BYTES >> 20):
        sys.stdout.write("x" * (1 << 20))
        sys.stderr.write("\x1b]52;c;AAAA\x07" * 100)
    sys.stdout.flush()


def replaces_settings() -> None:
    """Change what other code of the process relies on."""
    os.environ.clear()
    os.chdir("/")
    os.umask(0o777)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.time = time.monotonic = lambda: -1.0
    sys.path.clear()


WAYS = {
    way.__name__: way
    for way in (
        hangs, exits, interrupts, raises_at_import, forks, detaches, eats_memory, writes_junk,
        prints, replaces_settings,
    )
}  # fmt: skip


def cells(study: Study) -> list[Cell]:
    ways = os.environ["CAMPAIGN_WAYS"].split(",")
    return [Cell(name=way, subjects=("before", way, "after")) for way in ways]


def run(cell: Cell) -> Iterator[Begin | Measurement]:
    for subject in cell.subjects:
        yield Begin(subject)
        if subject in WAYS:
            WAYS[subject]()
        yield Measurement(metric="turn", value=1.0, unit="", subject=subject)
