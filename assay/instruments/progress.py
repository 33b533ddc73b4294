"""Signs that a case goes on, beside its result: a program that was run, something being compiled.

The process that makes cases gives them, and so does its second process; whoever watches it
(isolation.py) looks at the file that its results go to. A touch of the file is a sign. While a file
beside it says that torch compiles, no sign is wanted.
"""

import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

_EACH_S = 1.0  # at most as often
_COMPILING = ".compiling-"  # after the name of the file, before the process

_file: str | None = None
_last_s = 0.0
_compiled = 0


def goes_to(file: str | None) -> None:
    """Give signs through a file, which is there."""
    global _file
    _file = file


def file() -> str | None:
    """The file through which signs are given, for another process of ours."""
    return _file


def sign(*_: Any) -> None:
    """Show that something was done just now."""
    global _last_s
    if _file and (now := time.monotonic()) - _last_s > _EACH_S:
        _last_s = now
        with suppress(OSError):
            os.utime(_file)


def watch_compilers() -> None:
    """Have torch say when it compiles, once it has loaded its compiler. In a process of a user's,
    where nobody waits for signs, nothing is left behind in torch."""
    if _file is None:
        return
    callbacks = sys.modules.get("torch._dynamo.callback")
    handler = getattr(callbacks, "callback_handler", None)
    if handler and _begin not in handler.start_callbacks:  # a reset takes them away
        handler.start_callbacks.append(_begin)
        handler.end_callbacks.append(_end)


def is_compiling(of: str | None = None) -> bool:
    """True where a process whose signs go to a file, or where ours go, says that it compiles."""
    path = of or _file
    return bool(path and any(Path(path).parent.glob(f"{Path(path).name}{_COMPILING}*")))


def _begin(*_: Any) -> None:
    if _file:
        with suppress(OSError):
            Path(f"{_file}{_COMPILING}{os.getpid()}").touch()


def compiled() -> int:
    """Number of programs that frameworks have compiled here, as far as they say so."""
    return _compiled


def has_compiled(event: str, *_: Any, **__: Any) -> None:
    """Listen to what JAX says of its durations: XLA has compiled a program."""
    global _compiled
    _compiled += event.endswith("backend_compile_duration")
    sign()


def _end(*_: Any) -> None:
    global _compiled
    _compiled += 1
    sign()
    if _file:
        with suppress(OSError):
            os.remove(f"{_file}{_COMPILING}{os.getpid()}")
