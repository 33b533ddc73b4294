"""A cell's work in several processes, the ranks, which torchrun starts and watches.

    the cell's process   python -m assay.studies.ranks    python -m assay.studies.rank, N times
    items()          ->  torchrun's agent             ->  the stage's work, each with its share

Rank 0 sends what it yields through a named pipe, a line of JSON each, and goes on when the cell has
answered through another: what a batch holds is durable before the state after it is saved. A rank
dies with the agent and the agent with the cell, whatever ends them (Linux); elsewhere a rank 0
without a reader ends at its next line, and the others at their next exchange with it.
"""

import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from signal import SIGTERM
from typing import Any

import msgspec

from assay.instruments.isolation import Ending, by_code, exit_with_parent, kernel_oom_kills
from assay.instruments.start_method import finding_us
from assay.records.schema import Measurement
from assay.studies.cell import Batch, Cell, WorkerRequest, encode
from assay.subjects.outcome import Begin

REQUEST, UPDATES, ANSWERS = "request.json", "updates", "answers"
_FAILURE = "failure.json"
_POLL_S = 0.1
_PATIENCE_S = 60.0  # for the agent to end its ranks; it waits 30 s for them
_LOOPBACK = {"linux": "lo", "darwin": "lo0"}


class RankFailed(Exception):
    """A rank, or torchrun, ended before the work did."""

    def __init__(self, ending: Ending, reason: str) -> None:
        super().__init__(reason)
        self.ending = ending


@dataclass(frozen=True, kw_only=True)
class _Failure:
    """A rank that ended, as torchrun's agent saw it."""

    rank: int
    code: int  # a signal's number, negative, where one ended it
    message: str


def items(stage: str, cell: Cell, count: int) -> Iterator[Begin | Measurement | Batch]:
    """Do a cell's work in `count` ranks and yield what rank 0 yields; raises RankFailed."""
    kills_before = kernel_oom_kills()
    with tempfile.TemporaryDirectory(prefix="assay-ranks-") as scratch:
        folder = Path(scratch)
        (folder / REQUEST).write_bytes(encode(WorkerRequest(stage=stage, cell=cell)))
        with _pipes(folder) as (updates, answers), _agent(folder, count) as agent:
            for line in _lines(updates, agent):
                item = msgspec.json.decode(line)
                if "end" in item:
                    with suppress(subprocess.TimeoutExpired):
                        agent.wait(_PATIENCE_S)
                    return
                yield _decoded(item)
                os.write(answers, b"\n")
            raise _failed(folder, agent.wait(), count, kernel_oom_kills() > kills_before)


@contextmanager
def _pipes(folder: Path) -> Iterator[tuple[int, int]]:
    """Both pipes, open for reading and writing, so that neither opening waits for the other."""
    descriptors = []
    for name in (UPDATES, ANSWERS):
        os.mkfifo(folder / name, 0o600)
        descriptors.append(os.open(folder / name, os.O_RDWR))
    try:
        yield descriptors[0], descriptors[1]
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


@contextmanager
def _agent(folder: Path, count: int) -> Iterator[subprocess.Popen]:
    """The process of torchrun's agent, which ends with its ranks where it has not before."""
    arguments = [str(os.getpid()), str(folder), str(count)]
    # Safe, as by -P: for the ranks, which torchrun starts, too.
    environment = {"OMP_NUM_THREADS": "1", "PYTHONSAFEPATH": "1", **finding_us(os.environ)}
    if sys.platform in _LOOPBACK:  # all ranks are here, whatever this host's name resolves to
        environment.setdefault("GLOO_SOCKET_IFNAME", _LOOPBACK[sys.platform])
    agent = subprocess.Popen(
        [sys.executable, "-m", "assay.studies.ranks", *arguments],
        stdin=subprocess.DEVNULL,
        env=environment,
    )
    try:
        yield agent
    finally:
        agent.terminate()
        try:
            agent.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            agent.kill()
            agent.wait()


def _lines(updates: int, agent: subprocess.Popen) -> Iterator[bytes]:
    """Whole lines as they come, until the agent has ended."""
    text = b""
    while True:
        ended = agent.poll() is not None  # asked first: what came before the end is read after it
        while select.select([updates], [], [], 0.0 if ended else _POLL_S)[0]:
            *lines, text = (text + os.read(updates, 1 << 16)).split(b"\n")
            yield from lines
        if ended:
            return


def encoded(item: Begin | Measurement | Batch) -> bytes:
    """An item as a line without its end."""
    if isinstance(item, Begin):
        return msgspec.json.encode({"begin": item.subject, "probe": item.probe, "case": item.case})
    if isinstance(item, Batch):
        values = {"batch": item.number, "total": item.total, "measurements": item.measurements}
        return msgspec.json.encode(values)
    return msgspec.json.encode(item)


def _decoded(item: dict) -> Begin | Measurement | Batch:
    if "begin" in item:
        return Begin(item["begin"], item["probe"], item["case"])
    if "batch" in item:
        measurements = msgspec.convert(item["measurements"], list[Measurement])
        return Batch(item["batch"], item["total"], measurements)
    return msgspec.convert(item, Measurement)


def _failed(folder: Path, code: int, count: int, kernel_killed_something: bool) -> RankFailed:
    """The end of a rank in words, or that of the agent where it could not say."""
    file = folder / _FAILURE
    if not file.is_file():
        ending, reason = by_code(code, kernel_killed_something)
        return RankFailed(ending, f"torchrun's agent: {reason or 'it ended before the work did'}")
    failure = msgspec.json.decode(file.read_bytes(), type=_Failure)
    ending, reason = by_code(failure.code, kernel_killed_something)
    detail = f" ({failure.message})" if failure.code > 0 and failure.message else ""
    return RankFailed(ending, f"rank {failure.rank} of {count}: {reason}{detail}")


def run_agent(parent_pid: int, folder: Path, count: int) -> None:
    """Be torchrun: start the ranks, watch them, and end all where one ends badly."""
    exit_with_parent(parent_pid)
    from torch.distributed import run as torchrun
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    arguments = [
        "--standalone", "--nnodes=1", f"--nproc-per-node={count}", "--max-restarts=0",
        "--local-addr=127.0.0.1", f"--log-dir={folder / 'torchrun'}",
        "-m", "assay.studies.rank", str(os.getpid()), str(folder),
    ]  # fmt: skip
    try:
        torchrun.run(torchrun.parse_args(arguments))
    except ChildFailedError as error:
        failure = _first(error.failures)
        (folder / _FAILURE).write_bytes(msgspec.json.encode(failure))
        raise SystemExit(f"rank {failure.rank} ended with {failure.code}") from error


def _first(failures: Mapping[int, Any]) -> _Failure:
    """The rank that ended by itself: one that a signal ended which torchrun does not send to the
    others, or else the first that torchrun saw."""
    known = list(failures.items())
    by_signal = [pair for pair in known if pair[1].exitcode < 0 and -pair[1].exitcode != SIGTERM]
    rank, failure = (by_signal or known)[0]
    # A rank writes its exception as a dict; other messages are torchrun's own words for a code.
    message = failure.message["message"] if isinstance(failure.message, dict) else ""
    return _Failure(rank=rank, code=failure.exitcode, message=message)


if __name__ == "__main__":
    run_agent(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
