"""The same calls in another process: `python -m assay.bench.twin REQUEST`.

It prints, as JSON, a digest of the output's bits for each workload. It runs beside the process that
asked for it, on the cases in reverse order, so that nothing but the inputs is the same.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from assay import host
from assay.bench.call import bind
from assay.workloads.spec import WorkloadSpec
from assay.workloads.synthetic import make

_PATIENCE_S = 120.0


def start(
    name: str, specs: Sequence[WorkloadSpec], *, device: str, folders: Sequence[Path]
) -> Callable[[WorkloadSpec], str | None]:
    """Start the other process; the function that comes back waits for it and gives its digests,
    None for a case that did not run there."""
    request = {
        "name": name,
        "specs": [spec.as_dict() for spec in specs],
        "device": device,
        "folders": [str(folder) for folder in folders],
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "assay.bench.twin", json.dumps(request)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    found: dict[str, str] = {}

    def digest_of(spec: WorkloadSpec) -> str | None:
        if process.stdout and not process.stdout.closed:
            try:
                output, _ = process.communicate(timeout=_PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                output, _ = process.communicate()
            for line in output.splitlines():
                found.update(json.loads(line))
        return found.get(spec.name)

    return digest_of


def main(request: str) -> None:
    """Print a digest for each case that can be run."""
    from assay.bench.probes.determinism import digest

    asked = json.loads(request)
    here = host.inspect()
    folders = [Path(folder) for folder in asked["folders"]]
    for given in reversed(asked["specs"]):
        spec = WorkloadSpec(**given)
        try:
            call = bind(
                asked["name"], make(spec), host=here, device=asked["device"], folders=folders
            )
            print(json.dumps({spec.name: digest(call)}), flush=True)
        except Exception as error:  # the first process meets it too, and tells
            print(f"{spec.name}: {type(error).__name__}: {error}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1])
