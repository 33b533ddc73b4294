"""A function in a process that has done nothing else, without the price of a new Python.

Importing torch takes 3 s, and whoever asks for a process of its own asks often: a study for each of
its cells, a cell for the memory of each of its calls. So one process imports what is needed, calls
nothing and touches no device, and forks for each question, which takes 0.03 s. The first question
starts it: `python -m assay.instruments.fork_server PID FD`. A line of JSON on the socket FD is a
question, one line comes back for each answer and one for the end. It has no threads, for a fork of
threads may hang: one loop waits for lines, for ends of forks, and for limits to be passed. A fork
may ask in its turn, so that a cell and the memory of its calls come out of the same process.

Whoever asked ends: its forks are killed with all that they started. Where forking is not safe
(macOS, Windows) it answers one question itself and ends.

The standard library's forkserver imports the main module of whoever asks: a user's script without
a guard would run again in every answer.
"""

import atexit
import json
import os
import random
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, TextIO

from assay.instruments.isolation import (
    Exit,
    Limits,
    by_code,
    exit_of,
    exit_with_parent,
    kernel_oom_kills,
    kill_group,
    passed_limit,
)

_POLL_S = 0.02
_PATIENCE_S = 10.0  # for a server to end by itself; it may be importing
_ENDED = "the process that forks for it ended"
CAN_FORK = sys.platform == "linux"


@dataclass(frozen=True, kw_only=True)
class Answers:
    """Values that the function yielded, merged, and the reason where it ended early."""

    values: dict[str, Any]
    ending: str | None = None
    out_of_memory: bool = False


def ask(
    function: str,
    request: Mapping[str, Any],
    *,
    imports: Sequence[str] = (),
    timeout_s: float,
    memory_bytes: float | None = None,
) -> Answers:
    """Call `function`, named "module:function", on `request` in a fork; it yields dicts.

    `imports` are modules that the process shares with all its forks. Answers must be plain data
    for JSON; what the function prints goes to stderr.
    """
    values: dict[str, Any] = {}
    question = {
        "function": function,
        "request": request,
        "imports": list(imports),
        "limits": {"timeout_s": timeout_s, "memory_bytes": memory_bytes},
        **({"stdout": _own_stderr, "stderr": _own_stderr} if _own_stderr else {}),
    }
    end: dict[str, Any] | None = None
    for line in _lines(question):
        if "end" in line:
            end = line["end"]
        else:
            values |= line
    if end is None:
        return Answers(values=values, ending=_ENDED)
    words = {
        "timeout": f"it took longer than {timeout_s:g} s",
        "oom": f"it held more than {(memory_bytes or 0) / 2**30:.1f} GiB",
    }
    ending, reason = by_code(end["code"], end["oom_kills"])
    short = end["stopped"] == "oom" or ending == "oom"
    return Answers(values=values, ending=words.get(end["stopped"], reason), out_of_memory=short)


def run(
    function: str,
    request: Mapping[str, Any],
    *,
    imports: Sequence[str] = (),
    environment: Mapping[str, str],
    stdout: Path,
    stderr: Path,
    limits: Limits,
) -> Exit:
    """Call `function` in a fork of a process with this environment; what it prints is appended to
    files. An interrupt of ours ends it too."""
    question = {
        "function": function,
        "request": request,
        "imports": list(imports),
        "limits": asdict(limits),
        "stdout": str(stdout),
        "stderr": str(stderr),
    }
    start = time.monotonic()
    end: dict[str, Any] = {}
    for line in _lines(question, environment):
        end = line.get("end", end)
    elapsed_s = time.monotonic() - start
    if not end:
        return Exit(ending="crashed", reason=_ENDED, elapsed_s=elapsed_s)
    return exit_of(end["stopped"], end["code"], end["oom_kills"], limits, elapsed_s)


@dataclass(frozen=True, kw_only=True)
class _Server:
    """The other end of a process that forks."""

    process: subprocess.Popen[bytes] | None  # None in a fork, whose server is its parent
    lines: TextIO

    @property
    def is_there(self) -> bool:
        return self.process is None or self.process.poll() is None

    def close(self) -> None:
        """End it, with all that it forked."""
        with suppress(OSError):  # it may be gone, with a question that it never read
            self.lines.close()
        if self.process:
            try:
                self.process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


# By the process that asks, for a fork of it has none yet, and by the environment that was asked
# for, which what is imported reads; None for that of the first question.
_Key = tuple[int, frozenset[tuple[str, str]] | None]
_servers: dict[_Key, _Server] = {}
_own_server: _Server | None = None  # in a fork: the process that forked it,
_own_stderr: str | None = None  # and the file that stderr goes to


def _lines(
    question: Mapping[str, Any], environment: Mapping[str, str] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield what is said about a question; on any interrupt its process is ended."""
    chosen = None if environment is None else frozenset(environment.items())
    server = _own_server or _found((os.getpid(), chosen))
    done = False
    try:
        print(json.dumps(question), file=server.lines, flush=True)
        while not done and (text := server.lines.readline()):
            line = json.loads(text)
            done = "end" in line
            yield line
    except (BrokenPipeError, ConnectionResetError):
        pass
    finally:
        if not done:
            _forget(server)


def _found(key: _Key) -> _Server:
    """The server of a key, which takes the place of one with another environment: each holds what
    it imported in memory."""
    known = _servers.get(key)
    if known and known.is_there:
        return known
    for other in [other for other in _servers if other[0] == key[0] and other[1] and key[1]]:
        _forget(_servers[other])
    server = _servers[key] = _started(dict(key[1]) if key[1] else None)
    return server


def _forget(server: _Server) -> None:
    """End a server, or a fork's line to its own, and what answers there."""
    global _own_server
    if server is _own_server:
        _own_server = None
    for key in [key for key, known in _servers.items() if known is server]:
        del _servers[key]
    server.close()


def _started(environment: Mapping[str, str] | None) -> _Server:
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(os.getpid()), str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            env=environment,
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # Ctrl-C in a terminal reaches us alone, and we end it
        )
    return _Server(process=process, lines=_as_lines(ours))


def _as_lines(connection: socket.socket) -> TextIO:
    """A socket as text, line by line; it is closed with the file."""
    with connection:
        return connection.makefile("rw", encoding="utf-8", newline="\n")


@dataclass(kw_only=True)
class _Fork:
    """A process that answers a question."""

    pid: int
    asker: socket.socket
    line: socket.socket  # on which it may ask in its turn
    limits: Limits
    deadline: float
    kills_before: int
    pidfd: int
    stopped: str | None = field(default=None)


class _Loop:
    """Everything that the server waits for, in one thread."""

    def __init__(self, first: socket.socket) -> None:
        self.first = first
        self.forks: dict[int, _Fork] = {}  # by pidfd
        self.texts: dict[socket.socket, bytes] = {first: b""}
        self.selector = selectors.DefaultSelector()
        self.selector.register(first, selectors.EVENT_READ)

    def serve(self) -> None:
        """Answer until whoever started this closes its end."""
        while self.first in self.texts:
            for key, _ in self.selector.select(_POLL_S if self.forks else None):
                if key.fileobj in self.texts:
                    self._read(key.fileobj)
                elif key.fileobj in self.forks:
                    self._finish(self.forks[key.fileobj])
            for fork in list(self.forks.values()):
                if not fork.stopped:
                    fork.stopped = passed_limit(fork.pid, fork.deadline, fork.limits)
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
        ours, theirs = socket.socketpair()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            ours.close()
            self._become_fork(question, asker, theirs, parent)
        theirs.close()
        fork = _Fork(
            pid=pid,
            asker=asker,
            line=ours,
            limits=limits,
            deadline=time.monotonic() + limits.timeout_s,
            kills_before=kills,
            pidfd=os.pidfd_open(pid),
        )
        self.forks[fork.pidfd] = fork
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
        global _own_server, _own_stderr
        code = 1
        try:
            os.setsid()
            exit_with_parent(parent)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self.selector.close()
            for other in [*self.texts, *(fork.line for fork in self.forks.values())]:
                if other is not asker:
                    other.close()
            for pidfd in self.forks:
                os.close(pidfd)
            _redirect(question)
            _draw_anew()
            _own_server = _Server(process=None, lines=_as_lines(line))
            _own_stderr = question.get("stderr")
            _answer(question, _as_lines(asker))
            code = 0
        except SystemExit as leaving:  # as Python itself takes it
            code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
            if isinstance(leaving.code, str):
                print(leaving.code, file=sys.stderr)
        except BaseException:
            traceback.print_exc()
        finally:
            _leave(code)


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
    """End as a Python does at its end, but for what the server it was forked from would do."""
    try:
        threading._shutdown()
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
        lines = _as_lines(connection)
        question = json.loads(lines.readline())
        _answer(question, lines)
        end = {"stopped": None, "code": 0, "oom_kills": False}
        print(json.dumps({"end": end}), file=lines, flush=True)
        return
    warnings.filterwarnings("ignore", message=r".*os\.fork\(\)")  # JAX's, of its threads: none yet
    loop = _Loop(connection)

    def end_all(*_: object) -> None:
        for fork in loop.forks.values():
            kill_group(fork.pid)
        os._exit(0)

    signal.signal(signal.SIGTERM, end_all)
    exit_with_parent(parent_pid, signal.SIGTERM)
    loop.serve()
    end_all()


if __name__ == "__main__":
    # As the module that others import: a fork must find the line to its server there.
    import_module("assay.instruments.fork_server").main(*map(int, sys.argv[1:]))
