"""Every format that assay reads: how a small sample is written, and the reader that is called.

Samples are written by the project's own writers, or as the other program writes them, once for a
campaign; an input is a sample with one file altered. `reseal` makes checksums fit the altered
bytes, in half of the inputs, so that what stands behind them is reached.
"""

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from campaign import samples

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, kw_only=True)
class FileFormat:
    """A kind of file, or of folder, that somebody else may have made."""

    name: str
    make: Callable[[Path], None]  # writes the sample into an empty folder
    read: Callable[[Path], Any]  # reads what lies in such a folder
    altered: str = "**/*"  # the files that are mutated
    reseal: Callable[[Path, random.Random], None] | None = None


def add_test_modules() -> None:
    """Make what tests write samples with importable here."""
    tests = ROOT / "tests"
    names = (".", "records", "captures", "models", "train", "trackers", "studies", "verify")
    sys.path += [str(tests / n) for n in names if str(tests / n) not in sys.path]


def formats() -> dict[str, FileFormat]:
    """All formats by name."""
    add_test_modules()
    return {each.name: each for each in samples.all_formats(FileFormat)}
