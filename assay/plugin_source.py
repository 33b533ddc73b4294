"""The text of a plugin's file, read without running it: its docstring, literals and functions."""

import ast
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

# A function or class at the left margin, with all lines below it that are indented.
_BODY = re.compile(r"^(def|class) (\w+)[^\n]*\n(?:(?:[ \t)][^\n]*)?\n)*", re.MULTILINE)


def without_bodies(text: str) -> str:
    """A text that is quick to parse; right where no body has text at the left margin."""
    return _BODY.sub(r"\1 \2(): ...\n", text)


@lru_cache(maxsize=1 << 10)  # by the text, so an edit is noticed
def parse(text: str, filename: str) -> tuple[str, dict[str, Any], frozenset[str]]:
    """Docstring, literals (constants in capitals) and names of functions of a file.

    A function may be defined, imported, or assigned as in `attention = compiled(...)`, also within
    `try` or `if` as where an import may fail.
    """
    try:
        tree = ast.parse(text, filename=filename)
    except (ValueError, RecursionError, MemoryError) as error:  # a NUL, or nested without end
        raise SyntaxError(str(error) or "it is nested too deeply") from error
    literals: dict[str, Any] = {}
    functions: set[str] = set()
    for node in _statements(tree.body):
        if isinstance(node, ast.FunctionDef):
            functions.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            functions |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            functions.add(node.target.id)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if not name.isupper():
                functions.add(name)
            if not name.isupper() or node not in tree.body:  # one that depends is as if computed
                continue
            with suppress(
                ValueError, TypeError, RecursionError, MemoryError
            ):  # computed, so not readable without importing
                literals[name] = ast.literal_eval(node.value)
    return ast.get_docstring(tree) or "", literals, frozenset(functions)


def imported(text: str) -> set[str]:
    """The packages that a file which `parse` can read imports when it is loaded."""
    packages: set[str] = set()
    for node in _statements(ast.parse(text).body):
        if isinstance(node, ast.Import):
            packages |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            packages.add((node.module or "").partition(".")[0])
    return packages


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run on import, those within `if`, `try` and `with` too."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With):
            bodies = [node, *getattr(node, "handlers", ())]
            for part in ("body", "orelse", "finalbody"):
                for inner in bodies:
                    yield from _statements(getattr(inner, part, ()))
