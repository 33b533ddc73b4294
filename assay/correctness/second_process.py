"""The same cases in a second process: `python -m assay.correctness.second_process REQUEST`.

It prints a line of JSON for each case: a digest of the output's bytes, or the error. It runs beside
the process that started it, on the cases in reverse order, so that nothing but the inputs is the
same.
"""

import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from assay import host
from assay.captures.inputs import make
from assay.correctness import judge
from assay.correctness.program_cost import PROGRAMS
from assay.instruments import progress
from assay.instruments.out_of_memory import is_of_device
from assay.instruments.own_time import OwnTimeOf
from assay.instruments.start_method import finding_us, own_python
from assay.subjects.outcome import Unsupported
from assay.subjects.sequence import bind
from assay.workloads.spec import WorkloadSpec

_PATIENCE_S = 120.0  # for the result of a case


@dataclass(frozen=True, kw_only=True)
class SecondProcessResult:
    """Outcome of a case in the second process: a digest of its output, or an error."""

    digest: str | None = None
    error: str | None = None
    of_device: bool = False


def start(
    name: str, specs: Sequence[WorkloadSpec], *, device: str, folders: Sequence[Path]
) -> Callable[[WorkloadSpec], SecondProcessResult | None]:
    """Start the second process, and return a function that waits for it and gives the result of a
    case; None for a case that it did not finish in time."""
    request = {
        "name": name,
        "specs": [spec.as_dict() for spec in specs],
        "device": device,
        "folders": [str(folder) for folder in folders],
        "signs": progress.file(),
    }
    process = subprocess.Popen(
        own_python("assay.correctness.second_process", json.dumps(request)),
        env=finding_us(os.environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        bufsize=0,
    )
    results: dict[str, SecondProcessResult] = {}
    lines = _lines(process)

    def result_of(spec: WorkloadSpec) -> SecondProcessResult | None:
        while spec.name not in results and (line := next(lines, None)):
            case = json.loads(line)
            name = case.pop("name")
            results[name] = SecondProcessResult(**case)
        return results.get(spec.name)

    return result_of


def repeatable(framework: ModuleType) -> AbstractContextManager[None]:
    """Return a context for calls whose bits are to be compared with those of another process."""
    return getattr(framework, "repeatable", nullcontext)()


def _lines(process: subprocess.Popen) -> Iterator[bytes]:
    """Yield what the process prints, as it comes. One that prints nothing for long, and does not
    compile, is ended."""
    assert process.stdout
    text, clock, last_s = b"", OwnTimeOf(), 0.0
    while True:
        if select.select([process.stdout], [], [], 1.0)[0]:
            if not (part := os.read(process.stdout.fileno(), 1 << 16)):
                process.wait()
                return
            progress.sign()
            last_s = clock.update(process.pid)
            *lines, text = (text + part).split(b"\n")
            yield from lines
        elif clock.update(process.pid) - last_s > _PATIENCE_S and not progress.is_compiling():
            process.kill()
            process.wait()
            return


def main(request: str) -> None:
    """Print the result of each case; whatever the implementation prints goes to stderr."""
    results = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    settings = json.loads(request)
    progress.goes_to(settings["signs"])
    here, folders = host.inspect(commit=False), [Path(folder) for folder in settings["folders"]]
    for fields in reversed(settings["specs"]):
        spec = WorkloadSpec(**fields)
        try:
            call = bind(
                settings["name"], make(spec), host=here, device=settings["device"], folders=folders
            )
            progress.watch_compilers()
            PROGRAMS.watch()
            with repeatable(call.framework):
                result = {"digest": judge.digest(call)}
        except Unsupported:
            continue  # the first process is refused it too, and reports it
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            result = {"error": text, "of_device": is_of_device(error)}
        print(json.dumps({"name": spec.name, **result}), file=results)


if __name__ == "__main__":
    main(sys.argv[1])
