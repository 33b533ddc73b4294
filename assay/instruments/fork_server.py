"""A function in a process that has done nothing else, without the price of a new Python.

Importing torch takes 3 s, and whoever asks for a process of its own asks often. So one process
imports what is needed, calls nothing and touches no device, and forks for each question, which
takes 0.03 s. The first question starts it: `python -m assay.instruments.fork_server PID`, a line
of JSON for each question on its stdin, and on its stdout one for each answer and one for the end.
Where forking is not safe (macOS, Windows) it answers one question itself and ends.

The standard library's forkserver imports the main module of whoever asks: a user's script without
a guard would run again in every answer.
"""

import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any, TextIO

from assay.instruments.isolation import (
    by_code,
    exit_with_parent,
    kernel_oom_kills,
    resident_bytes,
)

_POLL_S = 0.02
_FORKS = sys.platform == "linux"


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
    question = {
        "function": function,
        "request": request,
        "imports": list(imports),
        "timeout_s": timeout_s,
        "memory_bytes": memory_bytes,
    }
    values: dict[str, Any] = {}
    server = _running_server()
    try:
        print(json.dumps(question), file=server.stdin, flush=True)
        while line := server.stdout.readline():
            answer = json.loads(line)
            if "end" in answer:
                return Answers(values=values, **answer["end"])
            values |= answer
    except BrokenPipeError:
        pass
    return Answers(values=values, ending="the process that forks for it ended")


def _running_server() -> subprocess.Popen[str]:
    server = _server(os.getpid())
    if server.poll() is not None:
        _server.cache_clear()
        server = _server(os.getpid())
    return server


@lru_cache(maxsize=1)
def _server(pid: int) -> subprocess.Popen[str]:
    """Start the process that forks for this one; a fork of this one has another `pid`."""
    return subprocess.Popen(
        [sys.executable, "-m", "assay.instruments.fork_server", str(pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def main(parent_pid: int) -> None:
    """Answer every question until stdin is closed, or the process that asks ends."""
    exit_with_parent(parent_pid)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for line in sys.stdin:
        question = json.loads(line)
        for module in (question["function"].partition(":")[0], *question["imports"]):
            import_module(module)
        if not _FORKS:
            _answer(question, answers)
            print(json.dumps({"end": {}}), file=answers)
            return
        print(json.dumps({"end": _in_fork(question, answers)}), file=answers)


def _answer(question: Mapping[str, Any], answers: TextIO, parent_pid: int | None = None) -> None:
    if parent_pid:
        exit_with_parent(parent_pid)
    module, _, function = question["function"].partition(":")
    for values in getattr(import_module(module), function)(question["request"]):
        print(json.dumps(values), file=answers)


def _in_fork(question: Mapping[str, Any], answers: TextIO) -> dict[str, Any]:
    """Fork, watch the limits, and return the end as fields of Answers."""
    kills_before = kernel_oom_kills()
    process = multiprocessing.get_context("fork").Process(
        target=_answer, args=(question, answers, os.getpid())
    )
    process.start()
    deadline, most = time.monotonic() + question["timeout_s"], question["memory_bytes"]
    end: dict[str, Any] = {}
    while process.is_alive() and not end:
        process.join(_POLL_S)
        if time.monotonic() > deadline:
            end = {"ending": f"it took longer than {question['timeout_s']:g} s"}
        elif most is not None and resident_bytes(process.pid) > most:
            held = f"it held more than {most / 2**30:.1f} GiB"
            end = {"ending": held, "out_of_memory": True}
    process.kill()
    process.join()
    if end:
        return end
    ending, reason = by_code(process.exitcode or 0, kernel_oom_kills() > kills_before)
    return {"ending": reason, "out_of_memory": ending == "oom"}


if __name__ == "__main__":
    main(int(sys.argv[1]))
