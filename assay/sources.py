"""Which files a plugin's behaviour depends on: itself and what it imports of ours.

A cell measured with other code is another cell, so its fingerprint covers these files.
"""

import ast
import hashlib
from functools import cache
from pathlib import Path

from assay.plugins import PACKAGE


def content_digests(*paths: Path) -> dict[str, str]:
    """A digest of each file that `paths` reach through imports, by a machine-independent name."""
    reached: set[Path] = set()
    waiting = [Path(path).resolve() for path in paths]
    while waiting:
        path = waiting.pop()
        if path not in reached:
            reached.add(path)
            waiting.extend(_imported(path))
    return {_portable(path): _digest(path) for path in sorted(reached)}


def _portable(path: Path) -> str:
    return str(path.relative_to(PACKAGE.parent)) if path.is_relative_to(PACKAGE) else path.name


@cache
def _digest(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


@cache
def _imported(path: Path) -> tuple[Path, ...]:
    """The internal files that `path` imports anywhere in its text, functions included."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            dotted = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _base(path, node)
            dotted = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        else:
            continue
        found.extend(file for name in dotted if (file := _file_of(name, path.parent)))
    return tuple(found)


def _base(path: Path, node: ast.ImportFrom) -> str:
    """The absolute dotted name of an import's origin, with leading dots resolved."""
    if node.level == 0:
        return node.module or ""
    folder = path.parents[node.level - 1]
    inside = folder.relative_to(PACKAGE.parent).parts if folder.is_relative_to(PACKAGE) else ()
    return ".".join([*inside, *([node.module] if node.module else [])])


def _file_of(dotted: str, neighbour: Path) -> Path | None:
    """The file behind a dotted name, in the package or beside a user's own file."""
    parts = dotted.split(".")
    root = PACKAGE.parent if parts[0] == PACKAGE.name else neighbour
    if root == neighbour and neighbour.is_relative_to(PACKAGE):
        return None  # inside the package, anything else is a third party's
    stem = root.joinpath(*parts)
    for candidate in (stem.with_suffix(".py"), stem / "__init__.py"):
        if candidate.is_file():
            return candidate.resolve()
    return None
