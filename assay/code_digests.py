"""Digests of the code behind a plugin: its own file and all it imports of ours.

A cell measured with other code is another cell, so its fingerprint covers these files.
"""

import ast
import hashlib
from functools import cache
from pathlib import Path

from assay.plugins import PACKAGE


def code_digests(*paths: Path) -> dict[str, list[str]]:
    """Digests of all files that `paths` reach through imports, by machine-independent names.

    A file of the package is named by its place in it, a user's file, which may lie anywhere, by
    its name alone; so a name may stand for several files.
    """
    reached: set[Path] = set()
    for start in (Path(path).resolve() for path in paths):
        waiting = [start]
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


@cache
def _digest(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


@cache
def _imported_files(path: Path, root: Path) -> tuple[Path, ...]:
    """The internal files that `path` imports anywhere in its text, functions included.

    `root` is the folder of the plugin that it belongs to, where a user's own modules are.
    """
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()  # what cannot be parsed cannot be imported either: importing it says so
    files: list[Path | None] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            files += [_file_of(alias.name.split("."), root) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module.split(".") if node.module else []
            folder = path.parents[node.level - 1] if node.level else root
            names = [base, *([*base, alias.name] for alias in node.names)]
            files += [_file_of(name, folder, relative=node.level > 0) for name in names]
    return tuple(file for file in files if file)


def _file_of(parts: list[str], root: Path, *, relative: bool = False) -> Path | None:
    """The file behind a dotted name: in the package, or below `root` for a user's own files."""
    if not relative and parts and parts[0] == PACKAGE.name:
        root = PACKAGE.parent
    elif not relative and root.is_relative_to(PACKAGE):
        return None  # inside the package, anything else is a third party's
    stem = root.joinpath(*parts)
    for candidate in (stem.with_suffix(".py"), stem / "__init__.py"):
        if candidate.is_file():
            return candidate.resolve()
    return None
