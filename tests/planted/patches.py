"""Planted defects as patches: a sound file and the few texts in it that make it wrong.

A defect is a Python file of literals that is read and never imported:

    BASE = "eager_plain"                                      # a file in `sound`, beside the folder
    REPLACE = {"seen.tril(keys - queries)": "seen.tril()"}    # old text, once in the base: new text
    PLANTED = "mask aligned top-left"                         # the defect in words
    CAUGHT_BY = ("accuracy", "causality", "shapes")           # probes or gates that may see it
    CAUSE = ("top-left", "aligned")                           # one of them stands in the reason

What the implementation says of itself (FRAMEWORK, ACCEPTS, ...) belongs to the base; what the tests
must know (SLOW, OWN_PROCESS) to the defect. A defect far from every sound file has no BASE: it is a
whole file, with PLANTED, CAUGHT_BY and CAUSE among its literals. A sound file may be a patch of
another sound file.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from assay import plugins


@dataclass(frozen=True)
class PatchedFile:
    """A file in a folder of defects, or of sound files."""

    path: Path

    @cached_property
    def literals(self) -> Mapping:
        return plugins.find("sequence", str(self.path)).literals

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def base(self) -> Path | None:
        """The sound file that is patched; None where this is a whole file."""
        name = self.literals.get("BASE")
        return self.path.parent.parent / "sound" / f"{name}.py" if name else None

    @property
    def source(self) -> str:
        """Source text of the implementation."""
        if self.base is None:
            return self.path.read_text()
        text = PatchedFile(self.base).source
        return patched(text, self.literals["REPLACE"], name=str(self.path))

    def write(self, folder: Path) -> Path:
        """Write the implementation into `folder`, called like this file."""
        written = folder / self.path.name
        written.write_text(self.source)
        return written


class Defect(PatchedFile):
    """A file in a folder of defects."""

    @property
    def planted(self) -> str:
        return self.literals["PLANTED"]

    @property
    def caught_by(self) -> tuple[str, ...]:
        return self.literals["CAUGHT_BY"]

    @property
    def cause(self) -> tuple[str, ...]:
        words = self.literals["CAUSE"]
        return (words,) if isinstance(words, str) else words

    @property
    def is_slow(self) -> bool:
        """Checked in `make test-full` only; another of its kind is quick."""
        return self.literals.get("SLOW", False)

    @property
    def needs_own_process(self) -> bool:
        """Ends or hangs its process, or differs between processes only."""
        return self.literals.get("OWN_PROCESS", False)

    def is_explained_by(self, reason: str) -> bool:
        return any(word.lower() in reason.lower() for word in self.cause)


def sound_files(folder: Path) -> list[PatchedFile]:
    return [PatchedFile(path) for path in _paths(folder)]


def defects(folder: Path) -> list[Defect]:
    return [Defect(path) for path in _paths(folder)]


def _paths(folder: Path) -> list[Path]:
    paths = sorted(folder.glob("*.py"))
    assert paths, f"{folder} holds no files"
    return paths


def patched(text: str, replace: Mapping[str, str], *, name: str) -> str:
    """Replace each old text by its new one; all old texts are looked for in `text` as it is."""
    for old in replace:
        if (count := text.count(old)) != 1:
            raise ValueError(f"{name}: the base holds this text {count} times, not once:\n{old}")
    places = sorted((text.index(old), old) for old in replace)
    parts, end = [], 0
    for start, old in places:
        if start < end:
            raise ValueError(f"{name}: this text overlaps with another one to replace:\n{old}")
        parts += [text[end:start], replace[old]]
        end = start + len(old)
    return "".join([*parts, text[end:]])
