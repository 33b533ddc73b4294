"""Inspection of a store or of one file: its calls read and summarised, shown as text or JSON."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec

from assay.captures import tensor_files
from assay.captures.formats import FORMATS
from assay.captures.inspect.observations import observations
from assay.captures.inspect.sites import SiteSummary, site_summaries
from assay.captures.inspect.summary import (
    CallSummary,
    as_json,
    pairs_of,
    summarise,
    tensor_summary,
)
from assay.captures.inspect.tables import (
    calls_table,
    run_outcome,
    runs_table,
    sites_table,
    tensors_table,
)
from assay.captures.manifest import CaptureRecord, Manifest
from assay.captures.store import Store
from assay.errors import BadInput
from assay.reports.numerals import counted
from assay.reports.table import Table

MOST_ROWS = 60  # calls that are listed one by one
SUFFIXES = tuple(f".{form}" for form in FORMATS)


@dataclass(frozen=True, kw_only=True, eq=False)
class Inspection:
    """Calls of a store, with its manifest, or of one file."""

    path: Path
    calls: list[CallSummary]
    manifest: Manifest | None

    @cached_property
    def sites(self) -> list[SiteSummary]:
        return site_summaries(self.calls)

    @cached_property
    def observations(self) -> list[str]:
        return observations(self.sites)

    @property
    def problems(self) -> list[str]:
        """Sentences about runs that did not end, dropped calls and a torn manifest."""
        return list(_problems(self.manifest)) if self.manifest else []

    @property
    def headline(self) -> str:
        if not self.calls:
            return "no captured calls"
        if self.manifest is None:
            return f"{len(self.calls[0].tensors)} tensors"
        layers = len({site.module for site in self.sites})
        calls = counted(len(self.calls), "captured call")
        return f"{calls} of {counted(layers, 'attention layer')}"

    def runs_tables(self) -> list[Table]:
        """The table of runs; none for a file."""
        return [runs_table(self.manifest)] if self.manifest and self.manifest.runs else []

    def calls_tables(self) -> list[Table]:
        """A table with a row for each call, or for each site where there are many calls."""
        if not self.calls:
            return []
        return [sites_table(self.sites) if self._many else calls_table(self.calls)]

    def tensors_tables(self) -> list[Table]:
        """A table of the tensors of each call, or of each site's largest where there are many."""
        if not self.calls:
            return []
        return [tensors_table([s.largest_call for s in self.sites] if self._many else self.calls)]

    @property
    def _many(self) -> bool:
        return len(self.calls) > MOST_ROWS


def inspect_path(
    path: Path, records: str | None = None, *, with_maps: bool = False, head: int | None = None
) -> Inspection:
    """Read and summarise a store, or the records of it that `records` selects, or one file."""
    if is_file(path):
        if records:
            raise BadInput(f"{path} is one file: it has no records to choose from")
        return Inspection(path=path, calls=[file_summary(path)], manifest=None)
    store = Store.open(path)
    manifest = store.manifest()
    selected = store.find(records) if records else manifest.records
    calls = summaries(store, selected, with_maps=with_maps, head=head)
    return Inspection(path=path, calls=list(_progress(calls, len(selected))), manifest=manifest)


def is_file(path: Path) -> bool:
    """Tell one file of tensors from a store; BadInput where `path` is neither."""
    if not path.exists():
        raise BadInput(f"there is no {path}; wanted a store, or one {' or '.join(SUFFIXES)} file")
    if path.is_file() and path.suffix not in SUFFIXES:
        raise BadInput(f"{path} ends in neither {' nor '.join(SUFFIXES)}; give one, or a store")
    return path.is_file()


def summaries(
    store: Store,
    records: Sequence[CaptureRecord],
    *,
    with_maps: bool = False,
    head: int | None = None,
) -> Iterator[CallSummary]:
    """Summarise each record, module after module; `with_maps` adds an attention map to the largest
    call of each: of the given head, else of the one of median entropy.

    The steps of a module follow each other, because a cache may be stored as what changed in each.
    """
    mapped = _largest_calls(records) if with_maps else ()
    for record in in_reading_order(records):
        tensors = store.read(record) if record.mode == "full" else {}
        yield summarise(record, tensors, with_map=record.name in mapped, head=head)


def file_summary(path: Path) -> CallSummary:
    """Summarise one .npz or .safetensors file: as its record, where it carries one."""
    tensors, note = tensor_files.read_with_note(path)
    size = path.stat().st_size
    try:
        record = msgspec.json.decode(note, type=CaptureRecord)
    except (msgspec.DecodeError, RecursionError):  # no note, or a text of others
        return CallSummary(
            name=path.name,
            record=None,
            stored_bytes=size,
            tensors={name: tensor_summary(name, tensor) for name, tensor in tensors.items()},
            attention=None,
            why_no_attention="a file alone does not say scale and causality; inspect its store",
        )
    entries, whole = {}, {}
    for name, entry in record.tensors.items():
        if name in tensors and tensors[name].shape == tuple(entry.shape):
            whole[name] = tensors[name]
        elif entry.why is None:
            why = "the file alone does not have all of it; inspect the store"
            entry = msgspec.structs.replace(entry, why=why)
        entries[name] = entry
    return summarise(msgspec.structs.replace(record, tensors=entries, bytes=size), whole)


def in_reading_order(records: Sequence[CaptureRecord]) -> list[CaptureRecord]:
    """Records run by run and module by module, each from its first step on."""
    return sorted(records, key=lambda r: (*r.key.module, r.key.step, r.key.call))


def show(inspection: Inspection) -> None:
    """Print observations and problems, then the tables."""
    from assay.reports.terminal import console
    from assay.reports.terminal import show as show_table

    screen = console()
    title = f"{inspection.path}: {inspection.headline}"
    screen.print(title, style="bold", markup=False, highlight=False)
    sentences = inspection.observations if inspection.calls else ()
    for line in (*(f"- {s}" for s in sentences), *(f"! {p}" for p in inspection.problems)):
        screen.print(line, markup=False, highlight=False)
    for table in inspection.runs_tables():
        show_table(table, screen)
    for table in (*inspection.calls_tables(), *inspection.tensors_tables()):
        show_table(table, screen, most_rows=MOST_ROWS)


def print_json(inspection: Inspection) -> None:
    """Print one JSON object for each call."""
    for call in inspection.calls:
        print(json.dumps(as_json(call), allow_nan=False))


def _largest_calls(records: Sequence[CaptureRecord]) -> set[str]:
    """Names of the calls with the most queries and keys, one for each module."""
    largest: dict[tuple, tuple[int, str]] = {}
    for record in records:
        module = record.key.module
        pairs = pairs_of(record.tensors) if record.mode == "full" else 0
        largest[module] = max(largest.get(module, (-1, "")), (pairs, record.name))
    return {name for _, name in largest.values()}


def _problems(manifest: Manifest) -> Iterator[str]:
    for run in manifest.runs:
        name = run.run + (f" of rank {run.rank}" if run.rank else "")
        ended, dropped = run_outcome(run, manifest)
        if not ended:
            yield f"run {name} did not end: it was killed or is still running"
        if dropped:
            yield f"run {name} dropped calls that were wanted: {dropped}"
    if manifest.torn_bytes:
        yield f"{manifest.torn_bytes:,} bytes of the manifest are not a whole line and were ignored"


def _progress(calls: Iterator[CallSummary], count: int) -> Iterator[CallSummary]:
    """The calls, with a progress bar on a terminal."""
    from rich.console import Console
    from rich.progress import track

    screen = Console(stderr=True)
    yield from track(
        calls,
        description="inspecting",
        total=count,
        console=screen,
        transient=True,
        disable=not screen.is_terminal,
    )
