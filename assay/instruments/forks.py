"""Questions to a process that forks for each: see fork_server.py.

A fork may ask in its turn, so that a cell and the memory of its calls come out of one process.
"""

import errno
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from assay.instruments.isolation import Exit, Limits, by_code, exit_of
from assay.instruments.start_method import can_fork, finding_us, own_python

_PATIENCE_S = 10.0  # for a server to end by itself; it may be importing
_MOST_SERVERS = 2  # a study's cells have two environments: with one CPU thread and with all
_SERVER = "assay.instruments.fork_server"
_ENDED = "the process that forks for it ended"


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
        "imports": [function.partition(":")[0], *imports],
        "limits": {"timeout_s": timeout_s, "memory_bytes": memory_bytes},
        **({"stdout": own_stderr, "stderr": own_stderr} if own_stderr else {}),
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
    if ending == "full":
        raise OSError(errno.ENOSPC, reason)
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
        "imports": [function.partition(":")[0], *imports],
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


def begin_imports(imports: Sequence[str], environment: Mapping[str, str]) -> None:
    """Have the process for an environment import modules, without waiting for it."""
    if can_fork():
        server = _server_for((os.getpid(), frozenset(environment.items())))
        with suppress(OSError):  # it ended: the first question starts another
            print(json.dumps({"imports": list(imports)}), file=server.lines, flush=True)


@dataclass(frozen=True, kw_only=True)
class Server:
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
_servers: dict[_Key, Server] = {}
# In a fork of the server:
own_server: Server | None = None  # the process that forked it,
own_pid: int | None = None  # its own number, for what it forks itself must not share the line,
own_stderr: str | None = None  # and the file that its stderr goes to


def _lines(
    question: Mapping[str, Any], environment: Mapping[str, str] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield what is said about a question; on any interrupt its process is ended."""
    chosen = None if environment is None else frozenset(environment.items())
    server = own_server if own_pid == os.getpid() else _server_for((os.getpid(), chosen))
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


def _server_for(key: _Key) -> Server:
    """The server of a key. Each holds what it imported in memory, so the one that was started first
    makes room where there are too many with environments of their own."""
    known = _servers.get(key)
    if known and known.is_there:
        return known
    chosen = [other for other in _servers if other[0] == key[0] and other[1]] if key[1] else []
    for other in chosen[: len(chosen) + 1 - _MOST_SERVERS]:
        _forget(_servers[other])
    server = _servers[key] = _started(dict(key[1]) if key[1] else None)
    return server


def _forget(server: Server) -> None:
    """End a server, or a fork's line to its own, and what answers there."""
    global own_pid
    if server is own_server:
        own_pid = None
    for key in [key for key, known in _servers.items() if known is server]:
        del _servers[key]
    server.close()


def _started(environment: Mapping[str, str] | None) -> Server:
    can_fork()  # refuses a word that it does not know, here where whoever asks hears it
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            own_python(_SERVER, str(os.getpid()), str(theirs.fileno())),
            stdin=subprocess.DEVNULL,
            env=_without_perf_maps(finding_us(os.environ) if environment is None else environment),
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # Ctrl-C in a terminal reaches us alone, and we end it
        )
    return Server(process=process, lines=as_lines(ours))


def _without_perf_maps(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment in which oneDNN, in torch and in XLA, writes no /tmp/perf-PID.map: on ARM it
    does for every process unless somebody says what it should write."""
    chosen = any(name in environment for name in ("ONEDNN_JIT_PROFILE", "DNNL_JIT_PROFILE"))
    return {**environment, **({} if chosen else {"ONEDNN_JIT_PROFILE": "0"})}


def as_lines(connection: socket.socket) -> TextIO:
    """A socket as text, line by line; it is closed with the file."""
    with connection:
        return connection.makefile("rw", encoding="utf-8", newline="\n")
