"""A function of a notebook or a script as a file, with all that it uses of the same place.

Implementations are timed in processes of their own, which find them in files. A function that can
be imported is imported there; of another the source is copied, with the functions, imports and
plain values that it uses. What cannot be written down is refused by name.
"""

import ast
import builtins
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from symtable import SymbolTable, symtable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from assay.code_digests import code_digests
from assay.errors import BadInput
from assay.records.durable import make_folder, write_atomically
from assay.records.identity import digest
from assay.user_code import is_installed

FOLDER = "functions"  # of a results folder
_DECLARED = ("accepts", "layout", "configs", "backward", "deterministic_backward")
DECLARATIONS = (*_DECLARED, "supports", "prepare")


def write_function(
    attention: Callable[..., Any],
    results: Path,
    *,
    framework: str = "torch",
    declared: Mapping[str, Any],
) -> Path:
    """Write the file of an implementation that is this function, with some of DECLARATIONS;
    another function, or another state of what it uses, has another folder."""
    name = getattr(attention, "__name__", "")
    if not name.isidentifier():
        raise BadInput(
            f"{attention!r} has no name of its own, which a file needs; write it as a function: "
            "def my_attention(q, k, v, *, causal, scale)"
        )
    text = _Text(name)
    for role, function in {"attention": attention, **declared}.items():
        if role not in _DECLARED:
            text.bind(role, function)
    stated = {"FRAMEWORK": framework} | {
        role.upper(): tuple(value) if role in ("accepts", "configs") else value
        for role, value in declared.items()
        if role in _DECLARED
    }
    literals = "".join(f"{literal} = {value!r}\n" for literal, value in stated.items())
    doc = f'"""The function {name}, as it was when it was measured."""\n'
    content = "\n".join([doc, *text.heads, literals, *text.bodies]) + "\n"
    path = make_folder(results / FOLDER / digest(content)) / f"{name}.py"
    write_atomically(path, content.encode())
    return path


class _Text:
    """The lines that make names mean what they mean to a function: imports first."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.heads: list[str] = []
        self.bodies: list[str] = []
        self._known: dict[str, Any] = {}

    def bind(self, name: str, value: Any) -> None:
        """Make `name` mean `value`."""
        if name in self._known:
            if self._known[name] is not value:
                raise self._refusal(f"two things called {name}, {value!r} and another")
            return
        self._known[name] = value
        if isinstance(value, ModuleType):
            self._import(f"import {value.__name__} as {name}", value)
        elif module := _importable(value):
            self._import(f"from {module.__name__} import {value.__qualname__} as {name}", module)
        elif (source := _defined(value)) is not None:
            self._copy(name, source, value)
        elif (written := _literal(value)) is not None:
            self.bodies.append(f"{name} = {written}\n")
        else:
            raise self._refusal(f"{name}, a {type(value).__name__}, which no file can hold")

    def _import(self, line: str, module: ModuleType) -> None:
        """Import from a module; one of the user's own is found where it lies, and what it says
        now is part of the text."""
        if sys.modules.get(module.__name__) is not module:
            raise self._refusal(f"the module {module.__name__}, which no import finds by that name")
        parts = module.__name__.split(".")
        around = [sys.modules.get(".".join(parts[:n])) for n in range(1, len(parts) + 1)]
        files = [Path(file) for each in around if (file := getattr(each, "__file__", None))]
        if files and not is_installed(files[0]):
            depth = len(parts) if files[-1].name == "__init__.py" else len(parts) - 1
            folder = files[-1].resolve().parents[depth]
            code = digest(code_digests(*files))
            self.heads.append(f"import sys  # {module.__name__}: {code}\n")
            self.heads.append(f"sys.path.append({str(folder)!r})\n")
        self.heads.append(f"{line}\n")

    def _copy(self, name: str, function: Any, value: Any) -> None:
        """Copy a function or class, after all that it uses; `value` is what its decorators make of
        it."""
        try:
            source = textwrap.dedent(inspect.getsource(function))
            tree = ast.parse(source).body[0]
        except (OSError, TypeError, SyntaxError) as error:
            raise self._refusal(f"{name}, whose source cannot be read ({error})") from error
        if not isinstance(tree, ast.FunctionDef | ast.ClassDef):
            raise self._refusal(f"{name}, which is no function with a def of its own")
        if _wrapped_elsewhere(value, function, tree):
            raise BadInput(
                f"{name} is {tree.name} in a wrapper, as torch.compile({tree.name}) makes one, and "
                f"the source of {tree.name} does not say so: without it, another function would be "
                "timed. Write the wrapper above its def as a decorator, such as @torch.compile, or "
                f"both into a file, with a line such as attention = torch.compile({tree.name}), "
                'and give its path: assay.bench("my_attention.py")'
            )
        names = _names_in(symtable(source, name, "exec")) - {tree.name}
        for used, value in _meanings(function, names):
            self.bind(used, value)
        self.bodies.append(source if name == tree.name else f"{source}\n\n{name} = {tree.name}\n")

    def _refusal(self, what: str) -> BadInput:
        return BadInput(
            f"{self.name} uses {what}. It is timed in a process of its own, from a file: make that "
            "a plain value, a function or an import, or write it all into a file and give its "
            'path: assay.bench("my_attention.py")'
        )


def _importable(value: Any) -> ModuleType | None:
    """The module that another process could import a value from by its name; None without one."""
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    name = getattr(value, "__qualname__", "")
    if module is None or module.__name__ == "__main__" or not name.isidentifier():
        return None
    return module if getattr(module, name, None) is value else None


def _defined(value: Any) -> Any:
    """The function or class whose source a value has; None without one."""
    inner = _layers(value)[-1]
    return inner if isinstance(inner, FunctionType | type) else None


def _layers(value: Any) -> list[Any]:
    """A value and what its wrappers wrap, the innermost last: that of a kernel of Triton is its
    `fn`."""
    layers = [value]
    while callable(value) and hasattr(layers[-1], "__wrapped__"):
        inner = layers[-1].__wrapped__
        if any(inner is each for each in layers):
            break
        layers.append(inner)
    if not isinstance(layers[-1], FunctionType | type) and hasattr(layers[-1], "fn"):
        layers.append(layers[-1].fn)
    return layers


def _wrapped_elsewhere(value: Any, function: Any, tree: ast.FunctionDef | ast.ClassDef) -> bool:
    """True where a wrapper was made after the def: there are more than it has decorators, or its
    name stands for something else that is made of the same def."""
    layers = _layers(value)
    named = getattr(function, "__globals__", {}).get(tree.name, value)
    other = named is not value and _defined(named) is function
    return len(layers) > 1 and (other or len(layers) - 1 > len(tree.decorator_list))


def _literal(value: Any) -> str | None:
    """The text of a plain value, of a number of NumPy or of a dtype; None where there is none."""
    if isinstance(value, np.generic) and type(value.item()) in (bool, int, float):
        # As the type it has: JAX promotes by it, so a plain number may be another computation.
        return f"__import__('numpy').dtype({value.dtype.name!r}).type({_literal(value.item())})"
    text = repr(value)
    if type(value).__module__ == "torch" and text.startswith("torch."):
        return f"__import__('torch').{text.removeprefix('torch.')}"
    if isinstance(value, float):
        return f"float({text!r})"
    try:
        return text if ast.literal_eval(text) == value else None
    except (ValueError, SyntaxError, TypeError):
        return None


def _names_in(table: SymbolTable) -> set[str]:
    """The names that a text takes from around it."""
    top = table.get_type() == "module"
    own = {
        symbol.get_name()
        for symbol in table.get_symbols()
        if (symbol.is_referenced() if top else symbol.is_global())
    }
    return own.union(*map(_names_in, table.get_children()))


def _meanings(function: Any, names: set[str]) -> Iterator[tuple[str, Any]]:
    """The meanings of names to a function: in what encloses it, then in its module."""
    around = getattr(sys.modules.get(function.__module__), "__dict__", {})
    scope = dict(getattr(function, "__globals__", around))
    closure = getattr(function, "__closure__", None) or ()
    if closure:
        cells = zip(function.__code__.co_freevars, closure, strict=True)
        scope |= {name: cell.cell_contents for name, cell in cells}
    for name in sorted(names):
        if name in scope and scope[name] is not getattr(builtins, name, scope):
            yield name, scope[name]
