"""Models of the user's own: classes called GPT2* in a file or a folder, as subjects of the gates.

The name of a class's first parameter says which configuration it is given: `config` a GPTConfig,
`cfg` an RA_MLA_Config.
"""

import inspect
from dataclasses import fields
from pathlib import Path
from types import ModuleType

from torch import nn

from assay import plugins
from assay.correctness.models import tiny
from assay.correctness.models.examined_model import ExaminedModel
from assay.errors import BadInput
from assay.models.gpt2.config import Config, GPTConfig, RA_MLA_Config

PREFIX = "GPT2"
_LATENT = {"config": False, "cfg": True}


def subjects(path: Path) -> tuple[ExaminedModel, ...]:
    """All models of a file, or of the files of a folder and of its sub-folder `models`."""
    path = Path(path).resolve()
    if path.is_file():
        return _of_file(path, required=True)
    if not path.is_dir():
        raise BadInput(f"there is no {path}; give a Python file with a model, or a folder of such")
    files = sorted([*path.glob("*.py"), *path.glob("models/*.py")])
    texts = [file for file in files if PREFIX in file.read_text(encoding="utf-8", errors="replace")]
    found = [one for file in texts for one in _of_file(file, required=False)]
    if not found:
        raise BadInput(f"no file in {path} has a model; {_WANTED}")
    return tuple(found)


def subject(path: Path, class_name: str) -> ExaminedModel:
    """One model of a file."""
    path = Path(path).resolve()
    there = _models(path)
    if class_name not in there:
        raise BadInput(f"{path} has no model {class_name}; it has {', '.join(there)}")
    return _subject(path, class_name, there[class_name])


_WANTED = (
    f"a model is a class whose name begins with {PREFIX}, a torch.nn.Module with get_num_params(): "
    "see docs/models.md"
)


def _of_file(path: Path, *, required: bool) -> tuple[ExaminedModel, ...]:
    there = _models(path, required=required)
    return tuple(_subject(path, name, kind) for name, kind in there.items())


def _models(path: Path, *, required: bool = True) -> dict[str, type]:
    module = _load(path)
    named = {name: kind for name, kind in vars(module).items() if _named(name, kind, module)}
    models = {name: kind for name, kind in named.items() if _is_model(kind)}
    if not models and required:
        near = f" ({', '.join(named)} is none)" if named else ""
        raise BadInput(f"{path} has no model{near}; {_WANTED}")
    return models


def _load(path: Path) -> ModuleType:
    try:
        return plugins.import_file(path)
    except (Exception, SystemExit) as error:
        raise BadInput(f"{path} fails on import: {type(error).__name__}: {error}") from error


def _named(name: str, kind: object, module: ModuleType) -> bool:
    """A class called like a model, and made in this file rather than imported into it."""
    if not isinstance(kind, type) or not name.startswith(PREFIX):
        return False
    return kind.__module__ == module.__name__


def _is_model(kind: type) -> bool:
    return issubclass(kind, nn.Module) and callable(getattr(kind, "get_num_params", None))


def _subject(path: Path, name: str, kind: type) -> ExaminedModel:
    first, others = _parameters(path, kind)
    config = tiny.config(latent=_LATENT[first])

    def build(given: Config) -> nn.Module:
        return kind(**{first: given}, **{other: getattr(given, other) for other in others})

    return ExaminedModel(name=name, build=build, config=config, source=path)


def _parameters(path: Path, kind: type) -> tuple[str, list[str]]:
    """`config` or `cfg`, and those behind it that are called like a field of it, such as
    vocab_size, and are given its value; the rest must have defaults."""
    parameters = list(inspect.signature(_constructor(kind)).parameters.values())[1:]
    loose = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    first = parameters[0].name if parameters and parameters[0].kind not in loose else None
    if first not in _LATENT:
        found = f"is {first!r}" if first else "does not exist"
        raise BadInput(
            f"{kind.__name__} in {path}: its constructor's first parameter {found}; call it config "
            "to be given a GPTConfig, or cfg to be given an RA_MLA_Config"
        )
    known = {item.name for item in fields(RA_MLA_Config if _LATENT[first] else GPTConfig)}
    others = [p.name for p in parameters[1:] if p.kind not in loose and p.name in known]
    needed = [p.name for p in parameters[1:] if p.kind not in loose and p.default is p.empty]
    rest = [name for name in needed if name not in others]
    if rest:
        raise BadInput(
            f"{kind.__name__} in {path}: its constructor needs {', '.join(rest)} beside {first}; "
            "give them defaults"
        )
    return first, others


def _constructor(kind: type) -> object:
    """The nearest constructor that says what it takes, for one may hand all on to its parent."""
    for base in kind.__mro__:
        given = vars(base).get("__init__")
        if given is None:
            continue
        parameters = list(inspect.signature(given).parameters.values())[1:]
        if parameters and parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL:
            return given
        if not parameters:
            return given
    return kind.__init__
