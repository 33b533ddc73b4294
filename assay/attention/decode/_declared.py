"""Declarations of a decode kernel, read from its text."""

from assay.errors import BadInput
from assay.plugins import Plugin

EXTRAS = ("lengths", "pages", "lse", "scratch")


def accepted(plugin: Plugin) -> frozenset[str]:
    """The keywords of a file's ACCEPTS; refuses names that nobody would give it."""
    stated = plugin.literals["ACCEPTS"]
    if isinstance(stated, str) or not isinstance(stated, tuple | list | set | frozenset):
        raise BadInput(f"{plugin.path}: ACCEPTS is {stated!r}; wanted names such as ('lengths',)")
    if unknown := sorted(str(name) for name in stated if name not in EXTRAS):
        raise BadInput(
            f"{plugin.path}: ACCEPTS names {', '.join(unknown)}; wanted some of {', '.join(EXTRAS)}"
        )
    return frozenset(stated)
