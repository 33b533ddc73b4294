"""A process that imports what is needed, calls nothing, and forks for each question.

Importing torch takes 3 s, and whoever asks for a process of its own asks often: a study for each of
its cells, a cell for the memory of each of its calls. A fork takes 0.03 s, and is as fresh: nothing
was called before it and no device was touched. `python -m assay.instruments.fork_server PID FD` is
started by the first question (forks.py). A line of JSON on the socket FD is a question, or names no
more than modules to import; one line comes back for each answer, and one for the end. It has no
threads, for a fork of threads may hang: one loop waits for lines, for ends of forks, and for limits
to be passed. When whoever asked ends, its forks are killed with all that they started, in whichever
session (descendants.py). A fork whose framework cannot be used, because an import touched a device
in the server, becomes a new Python instead (new_python.py). Where forking is not safe
(start_method.py) the server imports nothing, and every question has a new Python from the
beginning, under the same limits.

The standard library's forkserver imports the main module of whoever asks: a user's script without
a guard would run again in every answer.
"""

import atexit
import gc
import json
import os
import random
import selectors
import signal
import socket
import sys
import traceback
import warnings
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NoReturn

from assay.instruments import forks, new_python
from assay.instruments.bounded_file import BoundedFile, appended, trim
from assay.instruments.descendants import adopt, end_strays
from assay.instruments.forks import Server, as_lines
from assay.instruments.isolation import (
    Limits,
    LimitWatch,
    code_of,
    exit_with_parent,
    kernel_oom_kills,
    kill_group,
)
from assay.instruments.start_method import can_fork

_POLL_S = 0.02


@dataclass(kw_only=True)
class _Fork:
    """A process that answers a question."""

    pid: int
    asker: socket.socket
    line: socket.socket  # on which it may ask in its turn
    watch: LimitWatch
    kills_before: int
    pidfd: int | None  # None where the system has no such thing
    printed: list[BoundedFile]
    stopped: str | None = None
    status: int | None = None

    def wait(self, options: int = 0) -> int | None:
        """Its status, once it has ended."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, options)
            self.status = status if pid else None
        return self.status


class _Loop:
    """Everything that the server waits for, in one thread."""

    def __init__(self, first: socket.socket) -> None:
        self.first = first
        self.forks: dict[int, _Fork] = {}  # by pid
        self.texts: dict[socket.socket, bytes] = {first: b""}
        self.selector = selectors.DefaultSelector()
        self.selector.register(first, selectors.EVENT_READ)
        self.is_forking = False  # there may be a fork that self.forks does not have yet
        self.must_end = False

    def end_all(self, *_: object) -> None:
        """End with every fork: at once, or as soon as the one being made is known."""
        self.must_end = True
        if self.is_forking:
            return
        for fork in self.forks.values():
            kill_group(fork.pid)
        end_strays()
        for fork in self.forks.values():
            trim(fork.printed, ended=True)
        os._exit(0)

    def serve(self) -> None:
        """Answer until whoever started this closes its end."""
        while self.first in self.texts:
            for key, _ in self.selector.select(_POLL_S if self.forks else None):
                if key.fileobj in self.texts:
                    self._read(key.fileobj)
                elif key.data in self.forks:
                    self._finish(self.forks[key.data])
            for fork in list(self.forks.values()):
                if fork.pidfd is None and fork.wait(os.WNOHANG) is not None:
                    self._finish(fork)
                    continue
                trim(fork.printed)
                if not fork.stopped:
                    fork.stopped = fork.watch.passed(fork.pid)
                    if fork.stopped:
                        kill_group(fork.pid)

    def _read(self, asker: socket.socket) -> None:
        try:
            received = asker.recv(1 << 16)
        except ConnectionResetError:
            received = b""
        if not received:
            self._drop(asker)
            return
        *questions, self.texts[asker] = (self.texts[asker] + received).split(b"\n")
        for text in questions:
            question = json.loads(text)
            for module in question["imports"] if can_fork() else ():
                with suppress(Exception):  # the fork says so, in its own words
                    import_module(module)
            if "function" in question:
                self._fork(question, asker)

    def _drop(self, asker: socket.socket) -> None:
        """Forget who asked, and end what answers it."""
        for fork in [fork for fork in self.forks.values() if fork.asker is asker]:
            kill_group(fork.pid)
        self.selector.unregister(asker)
        self.texts.pop(asker)
        asker.close()

    def _fork(self, question: dict[str, Any], asker: socket.socket) -> None:
        forking = can_fork()
        limits, kills = Limits(**question["limits"]), kernel_oom_kills()
        # What a fork of a fork prints goes to the file of the first, whose bound is enough.
        names = [name for name in ("stdout", "stderr") if name in question and asker is self.first]
        printed = appended(*(question[name] for name in names))
        ours, theirs = socket.socketpair()
        parent = os.getpid()
        self.is_forking = True
        pid = os.fork() if forking else new_python.start(question, asker, theirs)
        if pid == 0:
            ours.close()
            self._become_fork(question, asker, theirs, parent)
        theirs.close()
        fork = _Fork(
            pid=pid,
            asker=asker,
            line=ours,
            watch=LimitWatch(limits),
            kills_before=kills,
            pidfd=os.pidfd_open(pid) if forking else None,
            printed=printed,
        )
        self.forks[pid] = fork
        self.is_forking = False
        if self.must_end:
            self.end_all()
        self.texts[ours] = b""
        self.selector.register(ours, selectors.EVENT_READ)
        if fork.pidfd is not None:
            self.selector.register(fork.pidfd, selectors.EVENT_READ, pid)

    def _finish(self, fork: _Fork) -> None:
        """Reap a fork that has ended, with all that it started, and say so."""
        kill_group(fork.pid)
        status = fork.wait()
        assert status is not None
        if fork.pidfd is not None:
            self.selector.unregister(fork.pidfd)
            os.close(fork.pidfd)
        del self.forks[fork.pid]
        end_strays({other.pid for other in self.forks.values()})
        trim(fork.printed, ended=True)
        if fork.line in self.texts:
            self._drop(fork.line)
        end = {
            "stopped": fork.stopped,
            "code": os.waitstatus_to_exitcode(status),
            "oom_kills": kernel_oom_kills() > fork.kills_before,
        }
        if fork.asker in self.texts:
            fork.asker.sendall(json.dumps({"end": end}).encode() + b"\n")

    def _become_fork(
        self, question: dict[str, Any], asker: socket.socket, line: socket.socket, parent: int
    ) -> NoReturn:
        """Go on as the fork: with nothing of the server but its modules and its own two lines."""
        code = 1
        try:
            os.setsid()
            gc.freeze()  # what was imported stays: to collect it takes 0.15 s, each time in vain
            # Likewise at the end: torch would take its operators apart, in 0.04 s.
            weakref.finalize._registry.clear()
            exit_with_parent(parent)
            adopt()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self.selector.close()
            for other in [*self.texts, *(fork.line for fork in self.forks.values())]:
                if other is not asker:
                    other.close()
            for fork in self.forks.values():
                os.close(fork.pidfd)
            _redirect(question)
            if _spoiled():
                new_python.become(question, asker, line)
            _draw_anew()
            forks.own_server = Server(process=None, lines=as_lines(line))
            forks.own_pid = os.getpid()
            forks.own_stderr = question.get("stderr")
            new_python.answer(question, as_lines(asker))
            code = 0
        except SystemExit as leaving:  # as Python itself takes it
            code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
            if isinstance(leaving.code, str):
                print(leaving.code, file=sys.stderr)
        except BaseException as error:
            code = code_of(error)
            with suppress(OSError):  # on a full disk
                traceback.print_exc()
        finally:
            _leave(code)


def _spoiled() -> bool:
    """True where a framework says that its devices cannot be used in this fork."""
    torch, jax = sys.modules.get("torch"), sys.modules.get("jax._src.xla_bridge")
    if torch and torch.cuda._is_in_bad_fork():
        return True
    return bool(jax and getattr(jax, "_backends", None))


def _redirect(question: Mapping[str, Any]) -> None:
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        if name in question:
            file = os.open(question[name], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            os.dup2(file, descriptor)
            os.close(file)


def _draw_anew() -> None:
    """Forks would all draw the numbers that the server would have drawn."""
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()


def _leave(code: int) -> NoReturn:
    """End as a Python does at its end, but for what the server it was forked from would do, and
    without waiting for threads: one that a user's code started may never end."""
    try:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def main(parent_pid: int, descriptor: int) -> None:
    """Answer every question until the socket is closed, or the process that asks ends."""
    os.dup2(2, 1)  # what is printed is no answer
    connection = socket.socket(fileno=descriptor)
    warnings.filterwarnings("ignore", message=r".*os\.fork\(\)")  # JAX's, of its threads: none yet
    adopt()  # what a fork leaves behind at its end; until then it is the fork's
    loop = _Loop(connection)
    signal.signal(signal.SIGTERM, loop.end_all)
    exit_with_parent(parent_pid, signal.SIGTERM)
    loop.serve()
    loop.end_all()


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
