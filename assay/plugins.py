"""Discovery of plugins: a folder's files are its names.

A package folder is a plugin folder when its `__init__.py` holds a literal CONTRACT, the functions
that each of its files must define. Everything here reads source text, so listing imports nothing;
`load` is the only function that runs a plugin.
"""

import importlib
import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from assay import user_code
from assay.errors import BadInput, did_you_mean, unknown_name
from assay.plugin_source import imported, parse, without_bodies
from assay.user_code import PACKAGE

_NOT_TORCH = (
    "imports jax and not torch, and would be given tensors of torch; add the line "
    'FRAMEWORK = "jax", or "torch" where it is written for those'
)
_NO_PACKAGES = (
    'has a FRAMEWORK or REQUIRES that names no packages; wanted such as FRAMEWORK = "torch" and '
    'REQUIRES = ("triton",)'
)


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """A file of a plugin folder, as its text describes it."""

    kind: str
    name: str
    path: Path
    doc: str = ""
    literals: Mapping[str, Any] = field(default_factory=dict)
    functions: frozenset[str] = frozenset()
    problem: str | None = None  # why the text cannot be used; None when it can

    @property
    def requires(self) -> tuple[str, ...]:
        """Names of the importable packages it needs, its framework first."""
        framework = self.literals.get("FRAMEWORK")
        needed = (framework,) if framework else ()
        return needed + tuple(self.literals.get("REQUIRES", ()))

    @property
    def missing(self) -> tuple[str, ...]:
        """Those of `requires` that are not installed here."""
        return tuple(name for name in self.requires if not installed(name))

    @property
    def summary(self) -> str:
        """The first line of its docstring."""
        return self.doc.strip().partition("\n")[0]


# What `pip install` calls a package that is imported by another name.
_DISTRIBUTIONS = {"flash_attn": "flash-attn", "flashinfer": "flashinfer-python"}


def how_to_install(packages: Iterable[str]) -> str:
    """The command that installs packages, which are named as they are imported."""
    return f"pip install {' '.join(_DISTRIBUTIONS.get(name, name) for name in packages)}"


def installed(package: str) -> bool:
    """True where `package` can be found, without importing it."""
    return importlib.util.find_spec(package.partition(".")[0]) is not None


@cache
def kinds() -> dict[str, tuple[Plugin, ...]]:
    """The plugin folders of the package by name, each described by its `__init__.py`.

    Several rooms may have a folder of one name, as correctness and performance have probes: their
    files are of one kind, with the defaults of their own folder.
    """
    folders: dict[str, tuple[Plugin, ...]] = {}
    for path in sorted(PACKAGE.rglob("__init__.py")):
        folder = _describe(path, kind="kind", name=path.parent.name, defaults={})
        if "CONTRACT" in folder.literals:
            folders[folder.name] = (*folders.get(folder.name, ()), folder)
    return folders


def folders_of(kind: str) -> tuple[Plugin, ...]:
    """The package's own folders of a kind; a user's file has the defaults of the last."""
    if kind not in kinds():
        raise BadInput(unknown_name("kind of plugin", kind, kinds()))
    return kinds()[kind]


_NOUNS = {"sequence": "implementation", "decode": "decode kernel"}


def noun(kind: str) -> str:
    """A plugin of a kind, as people call it."""
    return _NOUNS.get(kind, kind.removesuffix("s"))


def listing(kind: str, folders: Sequence[Path] = ()) -> dict[str, Plugin]:
    """All plugins of a kind by name: the package's own, then those in the user's folders.

    A user's folder holds files, whose kind is recognised by the functions they define, or
    sub-folders named for a kind. `folders` may also hold single files, taken in the same way. A
    name that is already taken is refused.
    """
    own = folders_of(kind)
    listed = {p.name: p for folder in own for p in _in_folder(folder.path.parent, folder)}
    for folder in folders:
        for plugin in _in_user_folder(Path(folder), own[-1]):
            if plugin.name in listed and plugin.path != listed[plugin.name].path:
                raise BadInput(
                    f"{plugin.path} has the same name as {listed[plugin.name].path}; "
                    f"names are unique within {kind}: rename one of the two files"
                )
            listed[plugin.name] = plugin
    return listed


def find(kind: str, name: str, folders: Sequence[Path] = ()) -> Plugin:
    """The plugin called `name`, or the one in the file that `name` is the path of."""
    name = name.removeprefix(f"{kind}/")
    if name.endswith(".py"):
        return _from_file(Path(name), folders_of(kind)[-1])
    for own in folders_of(kind) if not folders else ():  # without a look into all other files
        if path := _files(own.path.parent).get(name):
            return _describe(path, kind=kind, name=name, defaults=_folder_defaults(own))
    listed = listing(kind, folders)
    if name not in listed:
        if name and Path(name).is_dir():
            raise BadInput(
                f"that is a folder; wanted the name of some {noun(kind)} or the path of its file. "
                f"A folder of your own is given by --plugins {name}"
            )
        raise BadInput(
            f"{unknown_name(noun(kind), name, listed)} A file is named by its path (ending in "
            f".py), a folder of your own by --plugins DIR; `assay list {kind}` names all"
        )
    return listed[name]


def folders_beside(*files: Path) -> tuple[Path, ...]:
    """Plugin folders in which a user's files lie: what such a file names may lie there too."""
    parents = (file.parent for file in files if not file.is_relative_to(PACKAGE))
    return tuple(dict.fromkeys(p.parent if p.name in kinds() else p for p in parents))


def check(plugin: Plugin) -> Plugin:
    """Refuse a file that cannot be what its kind asks for, going by its text alone."""
    if plugin.problem:
        raise BadInput(f"{plugin.path} {plugin.problem}")
    absent = set(folders_of(plugin.kind)[-1].literals["CONTRACT"]) - plugin.functions
    if absent:
        raise BadInput(
            f"{plugin.path} defines no function {', '.join(sorted(absent))}; "
            f"a file in {plugin.kind} must: see docs/plugins.md"
        )
    return plugin


def load(plugin: Plugin) -> ModuleType:
    """Import a plugin that passes `check`."""
    check(plugin)
    try:
        return import_file(plugin.path)
    except Exception as error:
        raise BadInput(f"{plugin.path} fails on import: {type(error).__name__}: {error}") from error


def check_folders(folders: Iterable[Path]) -> tuple[Path, ...]:
    """The user's plugin folders as absolute paths; one that is not there is refused, and a file
    directly in one that cannot be read, for nothing else says of what kind it is."""
    resolved = tuple(dict.fromkeys(Path(folder).resolve() for folder in folders))
    for folder in resolved:
        if not folder.is_dir() and not (folder.is_file() and folder.suffix == ".py"):
            if folder.suffix == ".py":
                raise BadInput(f"there is no file {folder}; give the path of one that is there")
            raise BadInput(
                f"--plugins {folder} is not a folder; give the folder that holds your files"
            )
        for path in sorted(p for p in folder.glob("[!_]*.py") if p.is_file()):
            if problem := _describe(path, kind="kind", name=path.stem, defaults={}).problem:
                raise BadInput(
                    f"{path} {problem}; mend it, or move it out of the folder of --plugins"
                )
    return resolved


def _files(folder: Path) -> dict[str, Path]:
    """Each `<name>.py` and each `<name>/__init__.py` of a folder, by name."""
    files = [p for p in folder.glob("*.py") if p.is_file() and p.name != "__init__.py"]
    packages = list(folder.glob("*/__init__.py"))
    named = {path.stem: path for path in files} | {path.parent.name: path for path in packages}
    return {name: path for name, path in sorted(named.items()) if not name.startswith("_")}


def _in_folder(folder: Path, kind: Plugin) -> list[Plugin]:
    """A plugin for each of `_files`, described, not imported."""
    defaults = _folder_defaults(kind)
    files = _files(folder).items()
    return [_describe(path, kind=kind.name, name=name, defaults=defaults) for name, path in files]


def _in_user_folder(folder: Path, kind: Plugin) -> list[Plugin]:
    if folder.is_file():
        plugin = _from_file(folder, kind)
        return [plugin] if _is_of_kind(plugin) else []
    recognised = [plugin for plugin in _in_folder(folder, kind) if _is_of_kind(plugin)]
    return recognised + _in_folder(folder / kind.name, kind)


def _is_of_kind(plugin: Plugin) -> bool:
    """True where a file defines what its kind asks for, and not all of a larger contract: a stage,
    which has `cells` and `run`, is no engine, which has `run`."""
    contracts = {name: set(folders[-1].literals["CONTRACT"]) for name, folders in kinds().items()}
    own = contracts[plugin.kind]
    larger = [contract for contract in contracts.values() if own < contract]
    return own <= plugin.functions and not any(c <= plugin.functions for c in larger)


def _from_file(path: Path, kind: Plugin) -> Plugin:
    if path.is_dir():
        raise BadInput("that is a folder; give the path of a Python file, or a plugin's name")
    if not path.is_file():
        near = did_you_mean(path.name, (file.name for file in path.parent.glob("*.py")))
        wanted = near or "give the path of a Python file, or a plugin's name"
        raise BadInput(f"there is no file {path}; {wanted}")
    return _describe(
        path.resolve(), kind=kind.name, name=path.stem, defaults=_folder_defaults(kind)
    )


def _folder_defaults(kind: Plugin) -> dict[str, Any]:
    return {name: value for name, value in kind.literals.items() if name != "CONTRACT"}


def _describe(path: Path, *, kind: str, name: str, defaults: Mapping[str, Any]) -> Plugin:
    try:
        text = path.read_text(encoding="utf-8")
        ours = path.is_relative_to(PACKAGE)  # of which a test holds that no body hides anything
        doc, literals, functions = parse(without_bodies(text) if ours else text, str(path))
        problem = None if _names_packages(literals) else _NO_PACKAGES
    except (SyntaxError, UnicodeDecodeError) as error:
        problem = f"cannot be read as Python: {error}"
    if problem:
        return Plugin(kind=kind, name=name, path=path, literals=dict(defaults), problem=problem)
    if not ours and "FRAMEWORK" not in literals and defaults.get("FRAMEWORK") == "torch":
        packages = imported(text)
        problem = _NOT_TORCH if "jax" in packages and "torch" not in packages else None
    return Plugin(
        kind=kind,
        name=name,
        path=path,
        doc=doc,
        literals={**defaults, **literals},
        functions=functions,
        problem=problem,
    )


def _names_packages(literals: Mapping[str, Any]) -> bool:
    """True where FRAMEWORK and REQUIRES, if they are there, are names that can be imported."""
    framework, needed = literals.get("FRAMEWORK"), literals.get("REQUIRES", ())
    return isinstance(needed, tuple | list) and all(
        isinstance(name, str) and all(part.isidentifier() for part in name.split("."))
        for name in (*needed, *((framework,) if framework else ()))
    )


def module_name(path: Path) -> str:
    """The name of a module of the package."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def import_file(path: Path) -> ModuleType:
    """Run a file: one of the package by its name, a user's by its path."""
    if path.is_relative_to(PACKAGE):
        return importlib.import_module(module_name(path))
    return user_code.load_file(path)
