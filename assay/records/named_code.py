"""Code of others that a run names: plugins, files of subjects, tasks of evals."""

import re
from pathlib import Path

from assay.host import CHECKOUT
from assay.records.schema import Run

# An entry of a list that is a file, something in one, or a file with options.
_FILE = re.compile(r"(.+\.py)([:+].*)?")
_TASK = re.compile(r"(?:evals/)?lm_eval\+(?:.*\+)?file=([^+]+)(?:\+.*)?")


def portable(folder: Path) -> str:
    """A plugin folder as run.json names it: inside the checkout without saying where that lies."""
    return str(folder.relative_to(CHECKOUT) if folder.is_relative_to(CHECKOUT) else folder)


def plugins_named_by(run: Run) -> list[Path]:
    """Folders and files with code that a run names, as paths on this machine.

    A run may come from anyone, so these are loaded only where whoever asks trusts them.
    """
    return [*(CHECKOUT / folder for folder in run.plugins), *_named_by(run, _FILE)]


def tasks_named_by(run: Run) -> list[Path]:
    """Files of tasks for lm-eval that a run names: such a file can name functions that are called,
    so it is code as a plugin is."""
    return _named_by(run, _TASK)


def _named_by(run: Run, pattern: re.Pattern[str]) -> list[Path]:
    entries = (entry for text in run.config.values() for entry in text.strip('"').split(","))
    files = (Path(match[1]).resolve() for entry in entries if (match := pattern.fullmatch(entry)))
    return list(dict.fromkeys(files))
