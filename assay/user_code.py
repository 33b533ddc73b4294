"""Imports of a user's files, always from their text.

Python keeps the bytecode of a module and takes it for current while the file has the same size and
the same second of its last change. A number changed twice within a second, or files copied with
their times, would be measured as what they were before, under the digest of what they are now.
Installed packages and our own files are imported as ever.
"""

import importlib.util
import sys
import sysconfig
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
)
from pathlib import Path
from types import CodeType, ModuleType

PACKAGE = Path(__file__).parent
_INSTALLED = {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib", "stdlib")}


def load_file(path: Path) -> ModuleType:
    """Run a user's file, which finds its neighbours as it would when run as a script."""
    if _finder not in sys.path_hooks:
        sys.path_hooks.insert(0, _finder)
        sys.path_importer_cache.clear()  # of finders that were made without it
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.append(folder)
    name = f"assay_user_{path.parent.name if path.stem == '__init__' else path.stem}"
    spec = importlib.util.spec_from_file_location(name, path, loader=_FromText(name, str(path)))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def is_installed(path: Path) -> bool:
    """True for a module or package among installed ones, which count by their versions."""
    above = path.resolve().parents
    return bool(_INSTALLED.intersection(above)) or any(
        True for folder in above for _ in folder.glob("*.dist-info")
    )


class _FromText(SourceFileLoader):
    """Compiles a file each time it is imported."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def _finder(entry: str) -> FileFinder:
    """Finds modules in a folder of a user's; of any other folder Python asks the next hook."""
    inside = Path(entry).resolve() / "module"
    if PACKAGE in inside.parents or not inside.parent.is_dir() or is_installed(inside):
        raise ImportError(f"{entry} is no folder of a user's", path=entry)
    return FileFinder(
        entry, (ExtensionFileLoader, EXTENSION_SUFFIXES), (_FromText, SOURCE_SUFFIXES)
    )
