"""The one decision on how a process of its own is started: by a fork, or as a new Python.

A fork is as fresh and starts a hundred times faster, but only Linux forks safely: on macOS its
libraries may have started threads before. ASSAY_START=spawn chooses new Pythons on Linux too.
"""

import os
import sys

from assay.errors import BadInput

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
