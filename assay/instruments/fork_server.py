"""A process that imports what is needed, calls nothing, and forks for each question.

Importing torch takes 3 s, and whoever asks for a process of its own asks often: a study for each of
its cells, a cell for the memory of each of its calls. A fork takes 0.03 s, and is as fresh: nothing
was called before it and no device was touched. `python -m assay.instruments.fork_server PID FD` is
started by the first question (forks.py). A line of JSON on the socket FD is a question; one line
comes back for each answer, and one for the end. It has no threads, for a fork of threads may hang:
one loop waits for lines, for ends of forks, and for limits to be passed. When whoever asked ends,
its forks are killed with all that they started, in whichever session (descendants.py). A fork whose
framework cannot be used, because an import touched a device in the server, becomes a new Python
instead. Where forking is not safe (macOS, Windows) the server answers one question itself and ends.

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
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NoReturn, TextIO

from assay.instruments import forks
from assay.instruments.bounded_file import BoundedFile, appended, trim
from assay.instruments.descendants import adopt, end_strays
from assay.instruments.forks import CAN_FORK, Server, as_lines
from assay.instruments.isolation import (
    Limits,
    LimitWatch,
    code_of,
    exit_with_parent,
    kernel_oom_kills,
    kill_group,
)

_POLL_S = 0.02


@dataclass(kw_only=True)
class _Fork:
    """A process that answers a question."""

    pid: int
    asker: socket.socket
    line: socket.socket  # on which it may ask in its turn
    watch: LimitWatch
    kills_before: int
    pidfd: int
    printed: list[BoundedFile]
    stopped: str | None = None


class _Loop:
    """Everything that the server waits for, in one thread."""

    def __init__(self, first: socket.socket) -> None:
        self.first = first
        self.forks: dict[int, _Fork] = {}  # by pidfd
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
                elif key.fileobj in self.forks:
                    self._finish(self.forks[key.fileobj])
            for fork in list(self.forks.values()):
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
        for question in questions:
            self._fork(json.loads(question), asker)

    def _drop(self, asker: socket.socket) -> None:
        """Forget who asked, and end what answers it."""
        for fork in [fork for fork in self.forks.values() if fork.asker is asker]:
            kill_group(fork.pid)
        self.selector.unregister(asker)
        self.texts.pop(asker)
        asker.close()

    def _fork(self, question: dict[str, Any], asker: socket.socket) -> None:
        for module in (question["function"].partition(":")[0], *question["imports"]):
            with suppress(Exception):  # the fork says so, in its own words
                import_module(module)
        limits, kills = Limits(**question["limits"]), kernel_oom_kills()
        # What a fork of a fork prints goes to the file of the first, whose bound is enough.
        names = [name for name in ("stdout", "stderr") if name in question and asker is self.first]
        printed = appended(*(question[name] for name in names))
        ours, theirs = socket.socketpair()
        parent = os.getpid()
        self.is_forking = True
        pid = os.fork()
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
            pidfd=os.pidfd_open(pid),
            printed=printed,
        )
        self.forks[fork.pidfd] = fork
        self.is_forking = False
        if self.must_end:
            self.end_all()
        self.texts[ours] = b""
        self.selector.register(ours, selectors.EVENT_READ)
        self.selector.register(fork.pidfd, selectors.EVENT_READ)

    def _finish(self, fork: _Fork) -> None:
        """Reap a fork that has ended, with all that it started, and say so."""
        kill_group(fork.pid)
        _, status = os.waitpid(fork.pid, 0)
        self.selector.unregister(fork.pidfd)
        os.close(fork.pidfd)
        del self.forks[fork.pidfd]
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
            exit_with_parent(parent)
            adopt()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self.selector.close()
            for other in [*self.texts, *(fork.line for fork in self.forks.values())]:
                if other is not asker:
                    other.close()
            for pidfd in self.forks:
                os.close(pidfd)
            _redirect(question)
            if _spoiled():
                _become_new_python(question, asker, line)
            _draw_anew()
            forks.own_server = Server(process=None, lines=as_lines(line))
            forks.own_pid = os.getpid()
            forks.own_stderr = question.get("stderr")
            _answer(question, as_lines(asker))
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


def _become_new_python(
    question: Mapping[str, Any], asker: socket.socket, line: socket.socket
) -> NoReturn:
    """Go on under the same number, which limits and whoever asked know, with both lines."""
    content = os.memfd_create("question")
    os.write(content, json.dumps(question).encode())
    descriptors = (content, asker.fileno(), line.fileno())
    for descriptor in descriptors:
        os.set_inheritable(descriptor, True)
    arguments = [sys.executable, "-m", __spec__.name, *map(str, descriptors)]
    os.execv(sys.executable, arguments)


def _answer_as_new_python(content: int, asker: int, line: int) -> None:
    """Answer the question that a fork had, with nothing imported before."""
    question = json.loads(os.pread(content, os.fstat(content).st_size, 0))
    forks.own_server = Server(process=None, lines=as_lines(socket.socket(fileno=line)))
    forks.own_pid = os.getpid()
    forks.own_stderr = question.get("stderr")
    _answer(question, as_lines(socket.socket(fileno=asker)))


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


def _answer(question: Mapping[str, Any], answers: TextIO) -> None:
    module, _, function = question["function"].partition(":")
    for values in getattr(import_module(module), function)(question["request"]):
        print(json.dumps(values), file=answers, flush=True)


def main(parent_pid: int, descriptor: int) -> None:
    """Answer every question until the socket is closed, or the process that asks ends."""
    os.dup2(2, 1)  # what is printed is no answer
    connection = socket.socket(fileno=descriptor)
    if not CAN_FORK:
        lines = as_lines(connection)
        question = json.loads(lines.readline())
        _answer(question, lines)
        end = {"stopped": None, "code": 0, "oom_kills": False}
        print(json.dumps({"end": end}), file=lines, flush=True)
        return
    warnings.filterwarnings("ignore", message=r".*os\.fork\(\)")  # JAX's, of its threads: none yet
    adopt()  # what a fork leaves behind at its end; until then it is the fork's
    loop = _Loop(connection)
    signal.signal(signal.SIGTERM, loop.end_all)
    exit_with_parent(parent_pid, signal.SIGTERM)
    loop.serve()
    loop.end_all()


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    (main if len(numbers) == 2 else _answer_as_new_python)(*numbers)
