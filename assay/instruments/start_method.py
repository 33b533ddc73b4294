"""The one decision on how a process of its own is started: by a fork, or as a new Python.

A fork is as fresh and starts a hundred times faster, but only Linux forks safely: on macOS its
libraries may have started threads before. ASSAY_START=spawn chooses new Pythons on Linux too.
"""

import os
import sys
from collections.abc import Mapping

from assay.errors import BadInput
from assay.installation import CHECKOUT, is_wheel

VARIABLE = "ASSAY_START"


def can_fork() -> bool:
    """True where processes are forked; ASSAY_START overrides what the system would have."""
    chosen = os.environ.get(VARIABLE, "")
    possible = ("fork", "spawn") if sys.platform == "linux" else ("spawn",)
    if chosen and chosen not in possible:
        raise BadInput(
            f"{VARIABLE}={chosen!r}: a process is started here by {' or '.join(possible)}; "
            "set one of these, or unset it"
        )
    return (chosen or possible[0]) == "fork"


def own_python(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of ours in a new Python. A random.py or json.py of a user's in
    the current folder is not taken for Python's own."""
    return [sys.executable, "-P", "-m", module, *arguments]


def finding_us(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment in which a new Python finds this checkout, wherever it is started."""
    if is_wheel():  # beside all installed packages, which are found as it is
        return dict(environment)
    path = os.pathsep.join(filter(None, [str(CHECKOUT), environment.get("PYTHONPATH")]))
    return {**environment, "PYTHONPATH": path}
