"""Work divided over processes: forks of this one take tasks, and results come in the tasks' order.

What a task comes to does not depend on who does it: its choices come from the seed and a number.
"""

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

PROCESSES = len(os.sched_getaffinity(0))
_NOTE_S = 10.0  # between two notes of progress
_work: Callable[[Any], Any]


@dataclass(frozen=True, kw_only=True)
class Effort:
    """Where a part starts and ends, and how many processes share it."""

    seed: int = 0
    first: int = 0  # number of the first input or study
    seconds: float = 60.0
    count: int | None = None  # inputs or studies, in place of seconds
    kills: int | None = None  # over all studies
    names: tuple[str, ...] = ()  # formats; all where there are none
    processes: int = PROCESSES


def spread(
    work: Callable[[Any], Any], tasks: Iterable[Any], processes: int = PROCESSES
) -> Iterator[Any]:
    """Results of `work`, which need not be importable, for each task."""
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(processes, fork, initializer=_take, initargs=(work,)) as pool:
        yield from pool.map(_do, tasks)


def _take(work: Callable[[Any], Any]) -> None:
    global _work
    _work = work


def _do(task: Any) -> Any:
    return _work(task)


class Notes:
    """Progress on stderr, now and then."""

    def __init__(self, part: str) -> None:
        self.part, self.start = part, time.monotonic()
        self.last = self.start

    @property
    def seconds(self) -> float:
        return round(time.monotonic() - self.start, 1)

    def note(self, text: str) -> None:
        if time.monotonic() - self.last > _NOTE_S:
            self.last = time.monotonic()
            print(f"{self.part}: {text}, {self.seconds:.0f} s", file=sys.stderr, flush=True)
