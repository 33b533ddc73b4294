"""Which models a user's files have, read from their text: nothing of theirs is run.

A model is a class at the top of a file whose name begins with GPT2 and that has get_num_params.
"""

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path

from assay.errors import BadInput

MODEL = "GPT2"  # how the names of models begin
_METHOD = "get_num_params"
_PLAIN = ("Module", "object", "ABC")  # base classes that do not have it
_TORCH = ("nn", "torch.nn")  # where others are that do not
_NO_CLASS = ("dict", "list", "tuple", "set", "frozenset", "int", "float", "str", "SimpleNamespace")


def names_in(path: Path) -> tuple[str, ...]:
    """The models of a file that was named: one must be there."""
    if not path.is_file():
        raise BadInput(f"there is no file {path}; give the path of a Python file with a model")
    found = _models(path)
    if not found:
        raise BadInput(
            f"{path} has no model: no class whose name begins with {MODEL} and that has "
            f"{_METHOD}(); see docs/models.md"
        )
    return found


def in_folders(folders: Sequence[Path]) -> dict[str, Path]:
    """The models of a user's folders, and of their sub-folders `models`, with their files."""
    found: dict[str, Path] = {}
    for file in _files(folders):
        for name in _models(file):
            if found.setdefault(name, file) != file:
                raise BadInput(f"{name} is in {found[name]} and in {file}; rename one of the two")
    return found


def _files(folders: Sequence[Path]) -> list[Path]:
    found = []
    for folder in folders:
        inside = [*folder.glob("*.py"), *folder.glob("models/*.py")]
        found += [folder] if folder.is_file() else sorted(inside)
    return [path for path in found if not path.name.startswith("_")]


def _models(path: Path) -> tuple[str, ...]:
    """The names of models at the top of a file, also those given by assignment."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    except (SyntaxError, ValueError) as error:
        raise BadInput(f"{path} cannot be read as Python: {error}") from error
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    names = [name for name, node in classes.items() if _may_have_method(node, classes)]
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) and _may_be_class(node.value) else []
        names += [target.id for target in targets if isinstance(target, ast.Name)]
    return tuple(dict.fromkeys(name for name in names if name.startswith(MODEL)))


def _may_be_class(value: ast.expr) -> bool:
    """A name, or a call that may make a class; literals and configurations do not."""
    if not isinstance(value, ast.Call):
        return isinstance(value, ast.Name | ast.Attribute)
    called = value.func.attr if isinstance(value.func, ast.Attribute) else value.func
    called = called.id if isinstance(called, ast.Name) else called
    return not isinstance(called, str) or not (called in _NO_CLASS or called.endswith("Config"))


def _may_have_method(node: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> bool:
    """Whether a class counts parameters, or has it from a base class that is not in this file."""
    if any(isinstance(item, ast.FunctionDef) and item.name == _METHOD for item in node.body):
        return True
    for base in node.bases:
        name = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
        inside = classes.get(name)
        if inside is not None and inside is not node and _may_have_method(inside, classes):
            return True
        of_torch = isinstance(base, ast.Attribute) and ast.unparse(base.value) in _TORCH
        if inside is None and name not in _PLAIN and not of_torch:
            return True
    return False
