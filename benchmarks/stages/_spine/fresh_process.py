"""The time of a fresh Python process, from starting it to having all it printed."""

import os
import subprocess
import sys
import time

from assay.host import CHECKOUT
from assay.records.schema import WorkloadIdentity

WORKLOAD = WorkloadIdentity(
    name="fresh_process", spec={"bytecode": "compiled", "stdout": "pipe"}, content=None
)


def elapsed_s(*arguments: str) -> float:
    """Wall time of `python ARGUMENTS` in the checkout; an exit code other than 0 is refused."""
    start = time.perf_counter()
    ended = subprocess.run(
        [sys.executable, *arguments], cwd=CHECKOUT, env=_environment(), capture_output=True
    )
    elapsed = time.perf_counter() - start
    if ended.returncode:
        message = ended.stderr.decode(errors="replace").strip()
        raise RuntimeError(
            f"python {' '.join(arguments)} ended with exit code {ended.returncode}: {message}"
        )
    return elapsed


def _environment() -> dict[str, str]:
    """Ours, but compiled modules are kept: a user has them from the second start on."""
    return {n: v for n, v in os.environ.items() if n != "PYTHONDONTWRITEBYTECODE"}
