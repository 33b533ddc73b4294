"""Names of decode subjects, LAYOUT:FILE, as in int4:dequantised; nothing is imported for them.

A file that reads one layout may stand alone, by its name or by its path, for its LAYOUT says the
rest. One that reads any is given with the layout.
"""

from collections.abc import Sequence
from pathlib import Path

from assay import plugins
from assay.attention.decode._declared import accepted
from assay.errors import BadInput
from assay.plugins import Plugin

KIND, LAYOUTS = "decode", "layouts"
PREFIX = f"{KIND}/"  # of a name on the command line
ALL = "all"
ANY = "any"  # LAYOUT of a file that reads all with keys and values
_WHOLE = "dense"  # nothing is written out whole that is whole
_LATENTS = ("mla_latent", "splice")  # one row for all heads, which no file for any layout reads


def names(folders: Sequence[Path] = ()) -> tuple[str, ...]:
    """Every file with the layout that it reads, those that read any with each that a file has, but
    for whole keys and values."""
    files = plugins.listing(KIND, folders)
    own = {name: file.literals["LAYOUT"] for name, file in files.items()}
    layouts = dict.fromkeys(layout for layout in own.values() if layout != ANY)
    written_out = [layout for layout in layouts if layout not in (_WHOLE, *_LATENTS)]
    return (
        *(f"{layout}:{name}" for name, layout in own.items() if layout != ANY),
        *(f"{layout}:{name}" for name in own if own[name] == ANY for layout in written_out),
    )


def completed(entry: str, folders: Sequence[Path] = ()) -> str:
    """LAYOUT:FILE of an entry, which may leave the layout out; refused where there is no such file
    or layout, or the file reads another."""
    layout, colon, file = entry.removeprefix(PREFIX).rpartition(":")
    plugin = find(file, folders)
    accepted(plugin)  # refuses what it cannot be given
    reads = plugin.literals["LAYOUT"]
    if not colon and reads == ANY:
        raise BadInput(
            f"{PREFIX}{plugin.name} reads any layout; say which, as in int4:{plugin.name}"
        )
    layout = layout or reads
    if reads not in (layout, ANY):
        raise BadInput(
            f"{PREFIX}{plugin.name} reads {reads}, not {layout}: that is its LAYOUT, dense where a "
            "file has none"
        )
    plugins.find(LAYOUTS, layout, folders)
    return f"{layout}:{plugin.name}"


def find(file: str, folders: Sequence[Path] = ()) -> Plugin:
    """The file of a name or path; one that is given by its path is looked into."""
    plugin = plugins.find(KIND, file, folders)
    if file.endswith(".py"):
        plugins.check(plugin)
        plugins.listing(KIND, [*folders, plugin.path])  # refuses a name that is taken
    return plugin


def place(entry: str) -> str:
    """The name or path of the file in an entry, without its layout."""
    return entry.removeprefix(PREFIX).rpartition(":")[2]


def entry(name: str, folders: Sequence[Path]) -> str:
    """The entry of a list that stands for LAYOUT:FILE, with the path of a file that is given so."""
    layout, _, file = name.partition(":")
    path = find(file, folders).path
    return f"{layout}:{path}" if path in folders else name


def layout_files(subjects: Sequence[str], folders: Sequence[Path] = ()) -> tuple[Path, ...]:
    """The files of the layouts that subjects read, each once."""
    layouts = dict.fromkeys(name.partition(":")[0] for name in subjects)
    return tuple(plugins.find(LAYOUTS, layout, folders).path for layout in layouts)
