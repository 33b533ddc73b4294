"""Values of symbols that name plugins: by name or path, with options, layouts or cores."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from assay import plugins
from assay.errors import BadInput, unknown_name
from assay.models import layer
from assay.studies import lists
from assay.subjects.decode import names as decode_names
from assay.train import entries as plugin_entries
from assay.train import eval_choice, optimizer_choice

ALL = "all"


def value(text: str, metadata: Mapping[str, Any], folders: Sequence[Path]) -> Any:
    """The value of a symbol whose text this is, by the metadata of its field."""
    if "read" in metadata:
        return metadata["read"](text)
    if "models" in metadata:
        return _models(text, folders)
    kind = metadata["kind"]
    if "cores" in metadata:
        return _with_cores(text, folders)
    if "layouts" in metadata:
        return _with_layouts(text, folders)
    if "options" in metadata:
        return _with_options(kind, text, folders)
    if metadata["empty"] and not text:
        return ()
    return _names(kind, text, folders) if metadata["many"] else _found(kind, text, folders)


def _names(kind: str, text: str, folders: Sequence[Path]) -> tuple[str, ...]:
    """The names of the plugins that a list gives."""
    if text == ALL:
        if known := plugins.listing(kind, folders):
            return tuple(sorted(known))
        raise BadInput(f"there are no {kind} plugins yet")
    entries = lists.some_entries(text)
    if ALL in entries:
        raise BadInput(f"{ALL!r} stands alone; wanted {ALL} or a list of names")
    names = [_found(kind, entry, folders) for entry in entries]
    lists.refuse_repeats(names, entries=entries)
    return tuple(names)


def _with_cores(text: str, folders: Sequence[Path]) -> tuple[str, ...]:
    """Layers, each with a core, as layer:core; none where the text is empty."""
    known = layer.names(folders)
    if text == ALL:
        return known
    names = lists.entries(text)
    for entry in names:
        if entry not in known:
            raise BadInput(unknown_name("layer", entry, (ALL, *known)))
    return names


def _with_layouts(text: str, folders: Sequence[Path]) -> tuple[str, ...]:
    """Decode kernels, each with the layout that it reads, as layout:file; none where the text is
    empty."""
    if text == ALL:
        return decode_names.names(folders)
    entries = lists.entries(text)
    if ALL in entries:
        raise BadInput(f"{ALL!r} stands alone; wanted {ALL} or a list of kernels")
    named = [decode_names.completed(entry, folders) for entry in entries]
    lists.refuse_repeats(named, entries=entries)
    return tuple(named)


def _with_options(kind: str, text: str, folders: Sequence[Path]) -> tuple[str, ...]:
    """Plugins with their options, each by the name that the reader of its kind gives it; there may
    be no evals."""
    if kind == eval_choice.KIND and not text:
        return ()
    chosen = {module.KIND: module.chosen for module in (optimizer_choice, eval_choice)}[kind]
    entries = lists.some_entries(text)
    folders = [*folders, *_files(map(plugin_entries.place, entries))]
    names = []
    for entry in entries:
        path = plugin_entries.place(entry)
        names.append(chosen(_found(kind, path, folders) + entry.removeprefix(path), folders).name)
    lists.refuse_repeats(names, entries=entries)
    if kind == eval_choice.KIND:
        eval_choice.all_chosen(names, folders)
    return tuple(names)


def _models(text: str, folders: Sequence[Path]) -> tuple[str, ...]:
    """Entries of which each names a model or a group of them."""
    from assay.correctness.models import selection

    entries = tuple(selection.with_absolute_path(entry) for entry in lists.some_entries(text))
    selection.select((entry for entry in entries if entry not in selection.GROUPS), folders)
    return entries


def _found(kind: str, entry: str, folders: Sequence[Path]) -> str:
    """The name of the plugin that `entry` stands for; a file given by its path must be one."""
    plugin = plugins.find(kind, entry, folders)
    if entry.endswith(".py"):
        plugins.check(plugin)
        plugins.listing(kind, [*folders, plugin.path])  # refuses a name that is taken
    return plugin.name


def _files(entries: Iterable[str]) -> tuple[Path, ...]:
    """The entries of a list that are paths of files: each is a plugin folder of one."""
    return plugins.check_folders(Path(entry) for entry in entries if entry.endswith(".py"))


def files_in(text: str, metadata: Mapping[str, Any]) -> tuple[Path, ...]:
    """The files among what a symbol names: later symbols find them by name, as in a folder."""
    if "options" in metadata:
        return _files(map(plugin_entries.place, text.split(",")))
    if "layouts" in metadata:
        return _files(map(decode_names.place, text.split(",")))
    return _files(text.split(",")) if "many" in metadata else ()
