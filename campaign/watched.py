"""Watch over code that reads a hostile file: time, memory, and what it does beside reading.

Inputs are read in a forked child, many in each. The parent kills a child that does not answer; the
child notes by an audit hook what is executed, written outside the folder of the input, sent, or
read at a path that the input named.
"""

import os
import resource
import select
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from assay.errors import BadInput, CannotRunHere
from campaign.hostile import CANARY

HANG_S = 10.0
MEMORY_BYTES = 1 << 30  # of resident memory above that at the start of the child
_ADDRESSES = 8 << 30  # beyond this an allocation fails, before the machine does
_STARTS = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork",
           "os.forkpty", "pty.spawn", "pickle.find_class"}  # fmt: skip
_SENDS = {"socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto"}
_CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink",
            "os.truncate", "os.chmod", "os.utime", "shutil.rmtree", "shutil.move"}  # fmt: skip
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_HARMLESS = ("/dev/null", "/dev/tty")
OUTCOMES = ("read", "refused")  # all others are findings


@dataclass(frozen=True, kw_only=True)
class ReadOutcome:
    """The end of one input: read, refused, or a finding with where it came from."""

    index: int
    kind: str
    reason: str = ""


def outcomes(
    prepare: Callable[[int], Any],
    read: Callable[[], Any],
    indices: range,
    folder: Path,
    *,
    hang_s: float = HANG_S,
) -> Iterator[ReadOutcome]:
    """Lay each input into `folder` and read it there, in children that are watched.

    A child that hangs or dies costs the one input; the rest goes on in the next child.
    """
    position = indices.start
    while position < indices.stop:
        for outcome in _of_child(prepare, read, range(position, indices.stop), folder, hang_s):
            position = outcome.index + 1
            yield outcome


def _of_child(
    prepare: Callable[[int], Any],
    read: Callable[[], Any],
    indices: range,
    folder: Path,
    hang_s: float,
) -> Iterator[ReadOutcome]:
    receiver, sender = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(receiver)
        _child(prepare, read, indices, folder, sender)
    os.close(sender)
    index, pending = indices.start, b""
    try:
        while index < indices.stop:
            ready, _, _ = select.select([receiver], [], [], hang_s)
            if not ready:
                yield ReadOutcome(index=index, kind="hang", reason=f"no end after {hang_s:g} s")
                return
            received = os.read(receiver, 1 << 16)
            if not received:
                yield ReadOutcome(index=index, kind="crashed", reason=_end_of(pid))
                return
            *rows, pending = (pending + received).split(b"\n")
            for line in rows:
                outcome = msgspec.json.decode(line, type=ReadOutcome)
                yield outcome
                index += 1
                if outcome.kind in ("memory", "campaign"):  # the child ends itself
                    return
    finally:
        os.close(receiver)
        _end_of(pid)


def _end_of(pid: int) -> str:
    """End a child and collect it."""
    try:
        done, status = os.waitpid(pid, os.WNOHANG)
        if not done:
            os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
    except ChildProcessError:
        return "it ended before"
    return f"the process ended with {os.waitstatus_to_exitcode(status)}"


def _child(
    prepare: Callable[[int], Any],
    read: Callable[[], Any],
    indices: range,
    folder: Path,
    sender: int,
) -> None:
    """Read all inputs and leave by os._exit, so that nothing of the parent's runs twice."""
    index = indices.start
    try:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os.setsid()
        sys.dont_write_bytecode = True
        limit = _status("VmSize") + _ADDRESSES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        start_bytes = _status("VmRSS")
        acts: list[tuple[str, str]] = []
        sys.addaudithook(_hook(acts, folder.resolve()))
        for index in indices:
            prepare(index)
            acts.clear()
            kind, reason = _ended(read)
            if acts:
                kind, reason = acts[0]
            elif _status("VmHWM") - start_bytes > MEMORY_BYTES:
                kind, reason = "memory", f"{(_status('VmHWM') - start_bytes) >> 20} MiB"
            os.write(sender, _line(index, kind, reason))
            if kind == "memory":
                os._exit(0)
    except BaseException:
        os.write(sender, _line(index, "campaign", traceback.format_exc()[-1000:]))
    finally:
        os._exit(0)


def _line(index: int, kind: str, reason: str) -> bytes:
    safe = reason.encode("utf-8", "backslashreplace").decode()[:600]
    return msgspec.json.encode({"index": index, "kind": kind, "reason": safe}) + b"\n"


def _ended(read: Callable[[], Any]) -> tuple[str, str]:
    try:
        read()
    except (BadInput, CannotRunHere):
        return "refused", ""
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [f for f in frames if "/assay/" in f.filename] or frames
        place = f"{own[-1].filename.rpartition('/assay/')[2]}:{own[-1].lineno}"
        return "traceback", f"{type(error).__name__} at {place}: {str(error)[:200]}"
    return "read", ""


def _hook(acts: list[tuple[str, str]], folder: Path) -> Callable[[str, tuple[Any, ...]], None]:
    inside = f"{folder}/"

    def is_inside(path: Any) -> bool:
        if not isinstance(path, str | bytes | os.PathLike):
            return True  # a descriptor
        absolute = os.path.abspath(os.fsdecode(path))
        return f"{absolute}/".startswith(inside) or absolute in _HARMLESS

    def hook(event: str, values: tuple[Any, ...]) -> None:
        if event in _STARTS:
            acts.append(("executed", f"{event} {values!r}"))
        elif event in _SENDS:
            acts.append(("sent", f"{event} {values[1:]!r}"))
        elif event == "exec" and values and values[0].co_filename.startswith(inside):
            acts.append(("executed", f"code of {values[0].co_filename}"))
        elif event in ("ctypes.dlopen", "import") and any(
            isinstance(v, str) and v.startswith(inside) for v in values
        ):
            acts.append(("executed", f"{event} {values[:2]!r}"))
        elif event == "open":
            path, _, flags = values
            if flags & _WRITING and not is_inside(path):
                acts.append(("written", f"open {path!r}"))
            elif isinstance(path, str) and path.endswith((CANARY, "/etc/passwd", "/dev/zero")):
                acts.append(("strayed", f"read {path!r}, which the input named"))
        elif event in _CHANGES and not all(map(is_inside, values[:2])):
            acts.append(("written", f"{event} {values!r}"))

    return hook


def _status(name: str) -> int:
    """A figure of /proc/self/status in bytes."""
    with open("/proc/self/status", "rb") as file:
        for line in file:
            if line.startswith(name.encode()):
                return int(line.split()[1]) << 10
    raise RuntimeError(f"/proc/self/status has no {name}")
