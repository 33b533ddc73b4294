"""Work on many things at once in forked processes, as many as there are cores, results in order.

What was imported before is shared, so that a process costs nothing to begin. One that ends early
costs the thing it was at; another goes on with the rest.
"""

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

import msgspec

from assay.studies.worker import end_with

T = TypeVar("T")
# Of a thing: what its work gave, or None and how its process ended.
Result = tuple[Any, str]


def each(things: Sequence[T], work: Callable[[T], Any]) -> Iterator[tuple[T, Result]]:
    """Every thing with the result of its work, which must be plain data, in the order given."""
    workers = min(len(things), len(os.sched_getaffinity(0))) if sys.platform == "linux" else 1
    if workers < 2:
        yield from ((thing, (work(thing), "")) for thing in things)
        return
    found: dict[int, Result] = {}
    told = 0
    for number, result in _results(
        [list(range(k, len(things), workers)) for k in range(workers)],
        lambda number: work(things[number]),
    ):
        found[number] = result
        while told in found:
            yield things[told], found.pop(told)
            told += 1


@dataclass(frozen=True, kw_only=True)
class _Running:
    process: Any
    numbers: list[int]  # those that are still to come


def _results(
    shares: Sequence[list[int]], work: Callable[[int], Any]
) -> Iterator[tuple[int, Result]]:
    """Results as they come."""
    running = dict(_start(numbers, work) for numbers in shares)
    while running:
        for connection in wait(list(running)):
            assert isinstance(connection, Connection)
            one = running[connection]
            try:
                found = msgspec.json.decode(connection.recv_bytes())
            except EOFError:
                del running[connection]
                one.process.join()
                if one.numbers:  # it ended at the first of these
                    yield one.numbers.pop(0), (None, _ending(one.process.exitcode))
                if one.numbers:
                    running.update([_start(one.numbers, work)])
            else:
                yield one.numbers.pop(0), (found, "")


def _start(numbers: list[int], work: Callable[[int], Any]) -> tuple[Connection, _Running]:
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(
        target=_work, args=(numbers, work, theirs, os.getpid()), daemon=True
    )
    process.start()
    theirs.close()
    return ours, _Running(process=process, numbers=list(numbers))


def _work(numbers: list[int], work: Callable[[int], Any], to: Connection, parent: int) -> None:
    end_with(parent)
    for number in numbers:
        to.send_bytes(msgspec.json.encode(work(number)))


def _ending(code: int) -> str:
    return f"its process was ended by signal {-code}" if code < 0 else f"its process ended ({code})"
