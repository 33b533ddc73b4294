"""Names that a shell offers after Tab: those that are there, without importing what they name."""

from collections.abc import Callable, Iterable
from glob import glob, has_magic
from pathlib import Path

Completion = Callable[[str], list[str]]
DEVICES = ("auto", "cpu", "cuda")


def _entries(names: Callable[[], Iterable[str]], *, files: bool = False) -> Completion:
    """Offer the last entry of a list with commas: a name, or a Python file."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        offered = [*names(), *(_python_files(last) if files else ())]
        return [before + comma + name for name in offered if name.startswith(last)]

    return complete


def _python_files(start: str) -> list[str]:
    paths = [] if has_magic(start) else sorted(glob(f"{start}*"))
    folders = [f"{path}/" for path in paths if Path(path).is_dir()]
    return [*(path for path in paths if path.endswith(".py")), *folders]


def _plugins(kind: str) -> Callable[[], Iterable[str]]:
    def names() -> Iterable[str]:
        from assay import plugins

        return (*plugins.listing(kind), "all")

    return names


def _dtypes() -> Iterable[str]:
    from assay.workloads.spec import DTYPES

    return DTYPES


def defconfigs(incomplete: str) -> list[str]:
    """Studies by name, and files."""
    from assay.studies import kconfig

    files = [] if has_magic(incomplete) else sorted(glob(f"{incomplete}*"))
    return [name for name in (*kconfig.defconfigs(), *files) if name.startswith(incomplete)]


def kinds(incomplete: str) -> list[str]:
    """Kinds of plugins, and what else can be listed."""
    from assay import plugins

    return [n for n in (*plugins.kinds(), "models", "steps") if n.startswith(incomplete)]


def workloads(incomplete: str) -> list[str]:
    """A usual size, and the words that may follow one: masks, dtypes, values."""
    from assay.workloads.spec import DTYPES, LAYOUTS, MASKS, VALUES

    before, comma, last = incomplete.rpartition(",")
    sizes, underscore, word = last.rpartition("_")
    words = (*MASKS, *DTYPES, *VALUES, *LAYOUTS)
    names = [f"{sizes}_{w}" for w in words if w.startswith(word)] if underscore else []
    usual = [name for name in ("b1_h8_s1024_d64",) if name.startswith(last)]
    return [before + comma + name for name in (*usual, *names)]


implementations = _entries(_plugins("sequence"), files=True)
probes = _entries(_plugins("probes"))
dtypes = _entries(_dtypes)
devices = _entries(lambda: DEVICES)
