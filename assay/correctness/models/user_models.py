"""Models in a user's files: names read from the text, and single classes loaded for the gates.

A model is a class at the top of a file whose name begins with GPT2 and that has get_num_params().
Reading names runs none of the user's code and needs no torch. The name of a constructor's first
parameter says which configuration it takes: `config` a GPTConfig, `cfg` an RA_MLA_Config.
"""

import ast
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay import plugins
from assay.correctness.models import tiny
from assay.errors import BadInput
from assay.models.gpt2.config import GPTConfig, ModelConfig, RA_MLA_Config

if TYPE_CHECKING:
    from assay.correctness.models.examined_model import ExaminedModel

PREFIX = "GPT2"
_METHOD = "get_num_params"
_WANTED = f"no class whose name begins with {PREFIX} and that has {_METHOD}(); see docs/models.md"
_PLAIN_BASES = ("Module", "object", "ABC")  # classes without the method
_TORCH_MODULES = ("nn", "torch.nn")  # modules of more such classes
_NO_CLASSES = (
    *("dict", "list", "tuple", "set", "frozenset", "int", "float", "str"),
    "SimpleNamespace",
)
_CONFIGS = {"config": GPTConfig, "cfg": RA_MLA_Config}
_LOOSE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def model_names(path: Path) -> tuple[str, ...]:
    """Names of the models in a file; at least one must be there."""
    if not path.is_file():
        raise BadInput(f"there is no file {path}; give the path of a Python file with a model")
    names = _names(path)
    if not names:
        raise BadInput(f"{path} has no model: {_WANTED}")
    return names


def models_in(folders: Sequence[Path]) -> dict[str, Path]:
    """Names of the models in folders and their sub-folders `models`, with their files."""
    files: list[Path] = []
    for folder in folders:
        inside = [*folder.glob("*.py"), *folder.glob("models/*.py")]
        files += [folder] if folder.is_file() else sorted(inside)
    models: dict[str, Path] = {}
    for file in files:
        for name in () if file.name.startswith("_") else _names(file):
            if models.setdefault(name, file) != file:
                raise BadInput(f"{name} is in {models[name]} and in {file}; rename one of the two")
    return models


def load(path: Path, class_name: str) -> "ExaminedModel":
    """Import a file and return one of its models."""
    from torch import nn

    from assay.correctness.models.examined_model import ExaminedModel

    path = Path(path).resolve()
    try:
        module = plugins.import_file(path)
    except (Exception, SystemExit) as error:
        raise BadInput(f"{path} fails on import: {type(error).__name__}: {error}") from error
    model_class = getattr(module, class_name, None)
    is_class = isinstance(model_class, type) and issubclass(model_class, nn.Module)
    if (
        not is_class
        or model_class.__module__ != module.__name__  # imported into the file
        or not callable(getattr(model_class, _METHOD, None))
    ):
        raise BadInput(
            f"{class_name} in {path} is no model: wanted a torch.nn.Module of this file with "
            f"{_METHOD}(); see docs/models.md"
        )
    first, others = _parameters(path, model_class)

    def build(config: ModelConfig) -> nn.Module:
        values = {name: getattr(config, name) for name in others}
        return model_class(**{first: config}, **values)

    config = tiny.config(_CONFIGS[first])
    return ExaminedModel(name=class_name, build=build, config=config, source=path)


def _names(path: Path) -> tuple[str, ...]:
    """Names of possible models at the top of a file: classes and assignments."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    except (SyntaxError, ValueError) as error:
        raise BadInput(f"{path} cannot be read as Python: {error}") from error
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    names = [name for name, node in classes.items() if _may_have_method(node, classes)]
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) and _may_be_class(node.value) else []
        names += [target.id for target in targets if isinstance(target, ast.Name)]
    return tuple(dict.fromkeys(name for name in names if name.startswith(PREFIX)))


def _may_be_class(value: ast.expr) -> bool:
    """Return True for a name, or a call that may make a class; not for literals and configs."""
    if not isinstance(value, ast.Call):
        return isinstance(value, ast.Name | ast.Attribute)
    function = value.func.attr if isinstance(value.func, ast.Attribute) else value.func
    name = function.id if isinstance(function, ast.Name) else function
    return not isinstance(name, str) or not (name in _NO_CLASSES or name.endswith("Config"))


def _may_have_method(node: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> bool:
    """Return True where a class defines the method, or may inherit it from another file."""
    if any(isinstance(item, ast.FunctionDef) and item.name == _METHOD for item in node.body):
        return True
    for base in node.bases:
        name = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
        inside = classes.get(name)
        if inside is not None and inside is not node and _may_have_method(inside, classes):
            return True
        of_torch = isinstance(base, ast.Attribute) and ast.unparse(base.value) in _TORCH_MODULES
        if inside is None and name not in _PLAIN_BASES and not of_torch:
            return True
    return False


def _parameters(path: Path, model_class: type) -> tuple[str, list[str]]:
    """`config` or `cfg`, and the parameters behind it that are given the field of their name, such
    as vocab_size; all others must have defaults."""
    parameters = list(inspect.signature(_constructor(model_class)).parameters.values())[1:]
    first = parameters[0].name if parameters and parameters[0].kind not in _LOOSE else None
    if first not in _CONFIGS:
        given = f"is {first!r}" if first else "does not exist"
        raise BadInput(
            f"{model_class.__name__} in {path}: its constructor's first parameter {given}; call it "
            "config to be given a GPTConfig, or cfg to be given an RA_MLA_Config"
        )
    known = {item.name for item in fields(_CONFIGS[first])}
    behind = [parameter for parameter in parameters[1:] if parameter.kind not in _LOOSE]
    others = [parameter.name for parameter in behind if parameter.name in known]
    unknown = [p.name for p in behind if p.name not in known and p.default is p.empty]
    if unknown:
        raise BadInput(
            f"{model_class.__name__} in {path}: its constructor needs {', '.join(unknown)} beside "
            f"{first}; give them defaults"
        )
    return first, others


def _constructor(model_class: type) -> Any:
    """Nearest constructor with named parameters, for one may pass all on to its parent."""
    for base in model_class.__mro__:
        constructor = vars(base).get("__init__")
        if constructor is None:
            continue
        parameters = list(inspect.signature(constructor).parameters.values())[1:]
        if not parameters or parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL:
            return constructor
    return model_class.__init__
