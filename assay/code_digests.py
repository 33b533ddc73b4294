"""Digests of the code behind a plugin: its own file and all it imports of ours.

A cell measured with other code is another cell, so its fingerprint covers these files.
"""

import ast
import hashlib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import TypeVar

from assay.plugins import PACKAGE
from assay.user_code import is_installed

T = TypeVar("T")

# Sources of kernels, which a file beside them may compile when it is imported.
_SOURCES = (".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".so")

# An import as our own files write it: at the beginning of a line, names on it or in brackets.
_FOR_EDITORS = re.compile(r"^if TYPE_CHECKING:\n(?:[ \t]+[^\n]*\n|\n)+", re.MULTILINE)
_STATEMENT = re.compile(
    r"^[ \t]*(from[ \t]+[\w.]+[ \t]+import[ \t]+(?:\([^)]*\)|[^\n(]+)|import[ \t]+[^\n]+)",
    re.MULTILINE,
)


def code_digests(*paths: Path) -> dict[str, list[str]]:
    """Digests of all files that `paths` reach through imports, by machine-independent names.

    A file of the package is named by its place in it, a user's file, which may lie anywhere, by
    its name alone; so a name may stand for several files.
    """
    reached: set[Path] = set()
    for start in (Path(path).resolve() for path in paths):
        waiting = [start, *_sources_beside(start)]
        while waiting:
            path = waiting.pop()
            if path not in reached:
                reached.add(path)
                waiting.extend(_imported_files(path, start.parent))
    digests: dict[str, list[str]] = {}
    for path in sorted(reached):
        own = path.is_relative_to(PACKAGE)
        name = str(path.relative_to(PACKAGE.parent)) if own else path.name
        digests.setdefault(name, []).append(_digest(path))
    return digests


def _sources_beside(file: Path) -> list[Path]:
    """What a user's file may compile or load: nothing says which of it does."""
    if file.is_relative_to(PACKAGE):
        return []
    return [path for path in file.parent.iterdir() if path.suffix in _SOURCES and path.is_file()]


def _digest(path: Path) -> str:
    return _lasting(_digest_now, path)(path)


def _imported_files(path: Path, root: Path) -> tuple[Path, ...]:
    """The internal files that `path` imports anywhere in its text, functions included.

    `root` is the folder of the plugin that it belongs to, where a user's own modules are.
    """
    return _lasting(_imported_now, path)(path, root)


def _lasting(function: Callable[..., T], path: Path) -> Callable[..., T]:
    """A function that remembers what it made of our own files, which stay as they are while this
    process lives; a user's may be edited between two calls."""
    if path.is_relative_to(PACKAGE):
        return function
    return function.__wrapped__  # type: ignore[attr-defined]


@cache
def _digest_now(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


@cache
def _imported_now(path: Path, root: Path) -> tuple[Path, ...]:
    files: list[Path | None] = []
    for node in _imports(path):
        if isinstance(node, ast.Import):
            files += [_file_of(alias.name.split("."), root) for alias in node.names]
        else:
            base = node.module.split(".") if node.module else []
            folder = path.parents[node.level - 1] if node.level else root
            names = [base, *([*base, alias.name] for alias in node.names)]
            files += [_file_of(name, folder, relative=node.level > 0) for name in names]
    return tuple(file for file in files if file)


def _imports(path: Path) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports in a file. Of ours only the statements themselves are parsed, a tenth of the time,
    without those that never run; a user's may be written in any way."""
    try:
        text = path.read_text(encoding="utf-8")
        if path.is_relative_to(PACKAGE):
            statements = _STATEMENT.finditer(_FOR_EDITORS.sub("", text))
            nodes = [node for match in statements for node in _parsed(match[1])]
        else:
            nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # what cannot be parsed cannot be imported either: importing it says so
    yield from (node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom))


def _parsed(statement: str) -> list[ast.stmt]:
    try:
        return ast.parse(statement).body
    except SyntaxError:  # a sentence of a docstring
        return []


def _file_of(parts: list[str], root: Path, *, relative: bool = False) -> Path | None:
    """The file behind a dotted name: in the package, or below `root` for a user's own files."""
    if not relative and parts and parts[0] == PACKAGE.name:
        root = PACKAGE.parent
    elif not relative and root.is_relative_to(PACKAGE):
        return None  # inside the package, anything else is a third party's
    return _below(root, parts) or (None if relative else _elsewhere(parts))


def _below(root: Path, parts: list[str]) -> Path | None:
    stem = root.joinpath(*parts)
    compiled = (stem.with_name(stem.name + suffix) for suffix in EXTENSION_SUFFIXES)
    for candidate in (stem.with_suffix(".py"), stem / "__init__.py", *compiled):
        if candidate.is_file():
            return candidate.resolve()
    return None


def _elsewhere(parts: list[str]) -> Path | None:
    """The file of a user's module that lies on the path of Python, as after an editable install,
    and not among installed packages, which count by their versions."""
    root = _root_elsewhere(parts[0]) if parts else None
    return _below(root, parts) if root else None


def _root_elsewhere(name: str) -> Path | None:
    try:
        spec = None if name in sys.stdlib_module_names else importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    places = [*(spec.submodule_search_locations or ()), spec.origin] if spec else []
    if not places or not places[0]:
        return None
    place = Path(places[0]).resolve()
    return None if is_installed(place) else place.parent
