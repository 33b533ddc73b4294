"""Whether a kernel is right on a case in a process that has made no other call.

A shrinking case asks this dozens of times, and a new Python takes 3 s to import torch. So one
process imports the framework, calls nothing, and forks for each question, which takes 0.1 s. It is
started by the first question: `python -m assay.correctness.fresh_process`, a line of JSON for each
question on stdin and for each answer on stdout. Where forking is not safe (macOS, Windows) it
answers one question and ends, and the next question starts another.
"""

import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

from assay import host, plugins
from assay.captures.inputs import make
from assay.correctness import judge
from assay.host import Host
from assay.instruments.isolation import exit_with_parent
from assay.subjects.sequence import bind, framework_named
from assay.workloads.spec import WorkloadSpec

_PATIENCE_S = 120.0
_FORKS = sys.platform == "linux"


def right_in_fresh_process(path: Path, spec: WorkloadSpec, device: str) -> bool | None:
    """Return whether the first call of a process is right; None where it gave no answer."""
    question = {"path": str(path.resolve()), "spec": spec.as_dict(), "device": device}
    server = _server(os.getpid())
    if server.poll() is not None:
        _server.cache_clear()
        server = _server(os.getpid())
    try:
        print(json.dumps(question), file=server.stdin, flush=True)
        answer = server.stdout.readline()
    except BrokenPipeError:
        return None
    return json.loads(answer)["right"] if answer else None


@lru_cache(maxsize=1)
def _server(pid: int) -> subprocess.Popen[str]:
    """Start the process that answers this one; a fork of this one (`pid`) gets another."""
    return subprocess.Popen(
        [sys.executable, "-m", "assay.correctness.fresh_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def main() -> None:
    """Answer every question; whatever the implementation prints goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    here = host.inspect()
    for line in sys.stdin:
        question = json.loads(line)
        if not _FORKS:
            return _answer(question, here, answers)
        _import_framework(question["path"])
        _answer_in_fork(question, here, answers)


def _import_framework(path: str) -> None:
    """Import what the kernel's framework needs, by the text of the kernel's file alone."""
    name = plugins.find("sequence", path).literals.get("FRAMEWORK")
    if name in plugins.listing("frameworks"):
        for module in getattr(framework_named(name), "IMPORTS_LATER", ()):
            import_module(module)


def _answer_in_fork(question: Mapping[str, Any], here: Host, answers: TextIO) -> None:
    process = multiprocessing.get_context("fork").Process(
        target=_answer, args=(question, here, answers, os.getpid())
    )
    process.start()
    process.join(_PATIENCE_S)
    if process.exitcode != 0:
        process.kill()
        process.join()
        print(json.dumps({"right": None}), file=answers)


def _answer(
    question: Mapping[str, Any], here: Host, answers: TextIO, parent_pid: int | None = None
) -> None:
    if parent_pid:
        exit_with_parent(parent_pid)
    workload = make(WorkloadSpec(**question["spec"]))
    try:
        call = bind(question["path"], workload, host=here, device=question["device"])
        right = all(comparison.holds for comparison in judge.compare_all(call))
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        right = False
    print(json.dumps({"right": right}), file=answers)


if __name__ == "__main__":
    main()
