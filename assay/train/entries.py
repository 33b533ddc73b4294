"""Entries of lists that name a plugin with options: `adamwspam+theta=50`. Needs no torch.

A file has its options with their defaults in OPTIONS; a value is read as the type of its default.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assay import plugins
from assay.errors import BadInput

SEPARATOR = "+"
_TRUTH = {"True": True, "False": False}


def read(
    kind: str, entry: str, shared: Mapping[str, Any], folders: Sequence[Path] = ()
) -> tuple[plugins.Plugin, dict[str, Any]]:
    """The plugin that an entry names and the options that it gives; BadInput where its file or an
    option is unknown. `shared` are options of every plugin of the kind, with their defaults."""
    name, *words = entry.split(SEPARATOR)
    plugin = plugins.find(kind, name, folders)
    known = {**shared, **plugin.literals["OPTIONS"]}
    given: dict[str, Any] = {}
    for word in words:
        option, equals, text = word.partition("=")
        if not equals or option not in known:
            raise BadInput(
                f"{word!r} in {entry!r} sets no option of {plugin.name}; wanted NAME=VALUE, the "
                f"names are {', '.join(known)} (a file has its own in OPTIONS)"
            )
        if option in given:
            raise BadInput(f"{word!r} in {entry!r} sets {option} again; leave one of them out")
        given[option] = _value(option, text, type(known[option]))
    return plugin, given


def written(plugin: plugins.Plugin, given: Mapping[str, Any]) -> str:
    """The entry again, its options in order: two that mean the same are written alike."""
    options = [f"{name}={value}" for name, value in sorted(given.items())]
    return SEPARATOR.join([plugin.name, *options])


def place(entry: str) -> str:
    """The name or path of the file that an entry begins with."""
    return entry.partition(SEPARATOR)[0]


def _value(option: str, text: str, kind: type) -> Any:
    try:
        return _TRUTH[text] if kind is bool else kind(text)
    except (ValueError, KeyError):
        raise BadInput(f"{option}={text} cannot be read; wanted {kind.__name__}") from None
