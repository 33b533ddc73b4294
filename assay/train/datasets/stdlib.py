"""Sources of Python's standard library, which are on every machine: the offline default.

Left out are tests, installed packages, files that are not UTF-8, and those few that the build of an
interpreter writes, for they differ between machines with the same Python.
"""

import os
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from assay.errors import BadInput
from assay.train.documents import Document

_LEFT_OUT = {"site-packages", "dist-packages", "__pycache__", "test", "tests", "idle_test"}
_WRITTEN_BY_THE_BUILD = ("config-", "_sysconfigdata")


def documents(place: str) -> Iterator[Document]:
    """A document for each file, named by its path in the library, in the order of the names."""
    if place:
        raise BadInput(
            f"the dataset stdlib is this Python's own library and takes no place, got {place!r}; "
            "use the dataset folder for files of yours"
        )
    folder = Path(sysconfig.get_path("stdlib"))
    for name in sorted(_names(folder)):
        try:
            text = (folder / name).read_bytes().decode("utf-8")
        except UnicodeDecodeError:
            continue
        yield Document(name=name, text=text)


def _names(folder: Path) -> Iterator[str]:
    """Paths of the sources, relative to the library and with forward slashes."""
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in _LEFT_OUT and not _built(name)]
        for name in files:
            if name.endswith(".py") and not _built(name):
                yield (Path(parent) / name).relative_to(folder).as_posix()


def _built(name: str) -> bool:
    return name.startswith(_WRITTEN_BY_THE_BUILD)
