"""The same calls in another process: `python -m assay.correctness.second_process REQUEST`.

It prints, as JSON, a digest of the output's bits for each workload, or why there is none. It runs
beside the process that asked for it, on the cases in reverse order, so that nothing but the inputs
is the same. Asked to judge, it says of one workload whether a process that has made no other call
is right on it.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from assay import host
from assay.captures.inputs import make
from assay.correctness import judge
from assay.subjects.outcome import Unsupported
from assay.subjects.sequence import bind
from assay.workloads.spec import WorkloadSpec

_PATIENCE_S = 120.0


@dataclass(frozen=True, kw_only=True)
class Elsewhere:
    """What became of a case in the other process: a digest of its output, or whether it is right
    where that was asked, or an error."""

    digest: str | None = None
    right: bool | None = None
    error: str | None = None


def start(
    name: str, specs: Sequence[WorkloadSpec], *, device: str, folders: Sequence[Path]
) -> Callable[[WorkloadSpec], Elsewhere | None]:
    """Start the other process; the function that comes back waits for it and says what became of a
    case, None where it was not run there in time."""
    process = _started(name, specs, device=device, folders=folders, judge=False)
    found: dict[str, Elsewhere] = {}

    def of(spec: WorkloadSpec) -> Elsewhere | None:
        if process.stdout and not process.stdout.closed:
            try:
                output, _ = process.communicate(timeout=_PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                output, _ = process.communicate()
            found.update(_answers(output))
        return found.get(spec.name)

    return of


@lru_cache(maxsize=256)  # several ways of changing one case ask the same
def right_when_fresh(path: Path, spec: WorkloadSpec, device: str) -> bool | None:
    """Whether a process that makes no other call is right on a case; None where it did not say."""
    process = _started(str(path), [spec], device=device, folders=(), judge=True)
    try:
        output, _ = process.communicate(timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return None
    there = _answers(output).get(spec.name, Elsewhere())
    return False if there.error else there.right


def _started(
    name: str,
    specs: Sequence[WorkloadSpec],
    *,
    device: str,
    folders: Sequence[Path],
    judge: bool,
) -> subprocess.Popen:
    request = {
        "name": name,
        "specs": [spec.as_dict() for spec in specs],
        "device": device,
        "folders": [str(folder) for folder in folders],
        "judge": judge,
    }
    return subprocess.Popen(
        [sys.executable, "-m", "assay.correctness.second_process", json.dumps(request)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )


def _answers(output: bytes) -> dict[str, Elsewhere]:
    cases = [json.loads(line) for line in output.splitlines()]
    return {case.pop("name"): Elsewhere(**case) for case in cases}


def main(request: str) -> None:
    """Say what becomes of each case; whatever else is printed goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    asked = json.loads(request)
    here = host.inspect()
    folders = [Path(folder) for folder in asked["folders"]]
    for given in reversed(asked["specs"]):
        spec = WorkloadSpec(**given)
        try:
            call = bind(
                asked["name"], make(spec), host=here, device=asked["device"], folders=folders
            )
            if asked["judge"]:
                told = {"right": all(one.holds for one in judge.everything(call))}
            else:
                told = {"digest": judge.digest(call)}
        except Unsupported:
            continue  # the first process is refused it too, and tells
        except Exception as error:
            told = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps({"name": spec.name, **told}), file=answers)


if __name__ == "__main__":
    main(sys.argv[1])
