"""Upstream code: found below one folder, held against its pinned content, imported from there.

Nothing of theirs is in this repository. A wrapper names its upstream as data, UPSTREAM: repository,
commit, and the git blob of each file that holds the attention. Checkouts lie in a folder as
OWNER/NAME; ASSAY_UPSTREAMS names it, else it is `upstreams` beside this file.
"""

import hashlib
import importlib.util
import linecache
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType

FOLDER = "ASSAY_UPSTREAMS"

# What stands in for packages that upstreams import and that are not installed: files beside this.
_STAND_INS = {"einops": "_einops", "beartype": "_beartype", "labml": "_labml"}


@dataclass(frozen=True, kw_only=True)
class Upstream:
    """A file of a public repository at one commit, and those that it needs, by path."""

    repository: str  # OWNER/NAME on GitHub
    commit: str
    files: Mapping[str, str]  # path -> git blob, 20 digits of it; the first is wrapped
    port: Sequence[tuple[str, str]] = ()  # text to replace before a file is run, and by what

    @property
    def checkout(self) -> Path:
        folder = os.environ.get(FOLDER) or Path(__file__).with_name("upstreams")
        return Path(folder).resolve() / self.repository

    def refusal(self) -> str | None:
        """Reason why it cannot be used, and the way to get it; None where all is as pinned."""
        fetch = (
            f"git clone https://github.com/{self.repository} {self.checkout} && "
            f"git -C {self.checkout} checkout {self.commit}"
        )
        for name, blob in self.files.items():
            path = self.checkout / name
            if not path.is_file():
                return (
                    f"upstream {self.repository} is not at {path}; say where checkouts are with "
                    f"{FOLDER}, or get it: {fetch}"
                )
            if not (actual := git_blob(path.read_bytes())).startswith(blob):
                return (
                    f"{path} is git blob {actual[:12]}, wanted {blob[:12]} of commit "
                    f"{self.commit[:12]}; get it: {fetch}"
                )
        return None

    @cached_property
    def module(self) -> ModuleType:
        """The first file, imported once for each copy of the wrapper."""
        return self.load()

    def load(self, file: str = "") -> ModuleType:
        """Import `file`, or the first of them, anew: a fresh copy must not share what it keeps.

        Packages above it are entered without running their __init__, which imports far more than
        attention.
        """
        if problem := self.refusal():
            raise ImportError(problem)
        path = self.checkout / (file or next(iter(self.files)))
        packages = _packages(path)
        _forget(packages[0].name if packages else path.stem)
        _enter_stand_ins()
        for depth, package in enumerate(packages, 1):
            name = ".".join(p.name for p in packages[:depth])
            sys.modules[name] = module = ModuleType(name)
            module.__path__, module.__version__ = [str(package)], "0"  # some ask for it
        name = ".".join([*(p.name for p in packages), path.stem])
        return _run(path, name, self.port)


def git_blob(content: bytes) -> str:
    """The id that git gives to a file of this content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _packages(path: Path) -> list[Path]:
    """Folders above a file that are packages, the outermost first."""
    packages: list[Path] = []
    for folder in path.parents:
        if not (folder / "__init__.py").is_file():
            break
        packages.insert(0, folder)
    return packages


def _forget(top: str) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == top]:
        del sys.modules[name]


def _enter_stand_ins() -> None:
    for package, stand_in in _STAND_INS.items():
        if package not in sys.modules and importlib.util.find_spec(package) is None:
            sys.modules[package] = importlib.import_module(stand_in)


def _run(path: Path, name: str, port: Sequence[tuple[str, str]]) -> ModuleType:
    text, filename = path.read_text(encoding="utf-8"), str(path)
    for old, new in port:
        if old not in text:
            raise ImportError(f"{path} has no {old!r}, which the wrapper replaces by {new!r}")
        text = text.replace(old, new)
    if port:  # Triton reads the source of a kernel again, through linecache
        filename += " (ported)"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    module = sys.modules[name] = ModuleType(name)
    module.__file__ = filename
    if "." in name:
        module.__package__ = name.rpartition(".")[0]
    exec(compile(text, filename, "exec"), module.__dict__)
    return module
