"""Map a function over items in forked processes, one for each core, with results in order.

Imported modules are shared, so starting a process costs nothing. A process that dies costs the item
it was working on; another continues with the rest. The standard library has no such map: a worker
that dies breaks all of a ProcessPoolExecutor, and its item hangs a multiprocessing.Pool.
"""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple, TypeVar

import msgspec

from assay.instruments.isolation import exit_with_parent
from assay.instruments.start_method import can_fork

T = TypeVar("T")


class WorkResult(NamedTuple):
    """Return value of the work on an item; None where its process died, with `ending` in words."""

    value: Any
    ending: str = ""


def map_forked(work: Callable[[T], Any], items: Sequence[T]) -> Iterator[tuple[T, WorkResult]]:
    """Yield every item with its result, in order. Results must be plain data for JSON."""
    workers = min(len(items), len(os.sched_getaffinity(0))) if can_fork() else 1
    if workers < 2:
        yield from ((item, WorkResult(work(item))) for item in items)
        return
    shares = [list(range(first, len(items), workers)) for first in range(workers)]
    waiting: dict[int, WorkResult] = {}
    position = 0
    for index, result in _unordered(shares, lambda index: work(items[index])):
        waiting[index] = result
        while position in waiting:
            yield items[position], waiting.pop(position)
            position += 1


@dataclass(frozen=True, kw_only=True)
class _Worker:
    process: Any
    remaining: list[int]  # indices of items without a result


def _unordered(
    shares: Sequence[list[int]], work: Callable[[int], Any]
) -> Iterator[tuple[int, WorkResult]]:
    """Results by index as they arrive."""
    workers = dict(_start(share, work) for share in shares)
    while workers:
        for connection in wait(list(workers)):
            assert isinstance(connection, Connection)
            worker = workers[connection]
            try:
                value = msgspec.json.decode(connection.recv_bytes())
            except EOFError:
                del workers[connection]
                worker.process.join()
                if worker.remaining:  # it died working on the first of these
                    yield worker.remaining.pop(0), WorkResult(
                        None, _ending(worker.process.exitcode)
                    )
                if worker.remaining:
                    workers.update([_start(worker.remaining, work)])
            else:
                yield worker.remaining.pop(0), WorkResult(value)


def _start(indices: list[int], work: Callable[[int], Any]) -> tuple[Connection, _Worker]:
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(
        target=_run, args=(indices, work, sender, os.getpid()), daemon=True
    )
    process.start()
    sender.close()
    return receiver, _Worker(process=process, remaining=list(indices))


def _run(
    indices: list[int], work: Callable[[int], Any], sender: Connection, parent_pid: int
) -> None:
    exit_with_parent(parent_pid)
    for index in indices:
        sender.send_bytes(msgspec.json.encode(work(index)))


def _ending(code: int) -> str:
    return f"its process was ended by signal {-code}" if code < 0 else f"its process ended ({code})"
