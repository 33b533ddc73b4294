"""The environment of processes that tests start: this checkout first, then what is there."""

import os
from pathlib import Path

ROOT = Path(__file__).parent.parent


def environment(*first: Path, **more: str) -> dict[str, str]:
    """Ours, with `first` and the checkout before whatever PYTHONPATH already holds."""
    there = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([*map(str, first), str(ROOT), *([there] if there else [])])
    return {**os.environ, "PYTHONPATH": path, **more}
