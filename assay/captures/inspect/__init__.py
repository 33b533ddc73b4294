"""Every call of a store, or of one file, looked at one after another."""

import math
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import msgspec

from assay.captures import tensor_files
from assay.captures.inspect.summary import CallSummary, summarise, summarise_tensors
from assay.captures.manifest import CaptureRecord
from assay.captures.store import Store
from assay.errors import BadInput

SUFFIXES = tuple(f".{form}" for form in tensor_files.FORMS)


def is_file(path: Path) -> bool:
    """Whether `path` is one file of tensors rather than a store."""
    if not path.exists():
        raise BadInput(f"there is no {path}; wanted a store, or one {' or '.join(SUFFIXES)} file")
    if path.is_file() and path.suffix not in SUFFIXES:
        raise BadInput(f"{path} ends in neither {' nor '.join(SUFFIXES)}; give one, or a store")
    return path.is_file()


def summaries(
    store: Store,
    records: Sequence[CaptureRecord],
    *,
    maps_of: Collection[str] = (),
    head: int | None = None,
) -> Iterator[CallSummary]:
    """A look at each record, site after site; with a picture of attention for the names in
    `maps_of`, of the given head or the typical one.

    The steps of one site follow each other, because a cache may be stored as what changed in each.
    """
    for record in in_reading_order(records):
        tensors = store.read(record) if record.mode == "full" else {}
        yield summarise(record, tensors, with_map=record.name in maps_of, head=head)


def file_summary(path: Path) -> CallSummary:
    """A look at one .npz or .safetensors file: as at its record, where it was written with one."""
    tensors, note = tensor_files.read_with_note(path)
    size = path.stat().st_size
    record = _noted(note)
    if record is None:
        return summarise_tensors(path.name, tensors, stored_bytes=size)
    entries, whole = {}, {}
    for name, entry in record.tensors.items():
        if name in tensors and tensors[name].shape == tuple(entry.shape):
            whole[name] = tensors[name]
        elif entry.why is None:
            why = "the file alone has not all of it; inspect the store"
            entry = msgspec.structs.replace(entry, why=why)
        entries[name] = entry
    return summarise(msgspec.structs.replace(record, tensors=entries, bytes=size), whole)


def _noted(note: str) -> CaptureRecord | None:
    """The record that a file carries; None where it carries none, or another kind of text."""
    try:
        return msgspec.json.decode(note, type=CaptureRecord)
    except msgspec.DecodeError:
        return None


def largest_calls(records: Sequence[CaptureRecord]) -> set[str]:
    """Of each attention the name of the call with the most queries and keys."""
    found: dict[tuple[str, int, int, str], tuple[int, str]] = {}
    for record in records:
        key, entries = record.key, record.tensors
        pairs = 0
        if record.mode == "full" and {"q", "k"} <= set(entries):
            pairs = math.prod(entries["q"].shape[:3]) * math.prod(entries["k"].shape[2:3])
        place = (key.run, key.rank, key.layer, key.site)
        found[place] = max(found.get(place, (-1, "")), (pairs, record.name))
    return {name for _, name in found.values()}


def in_reading_order(records: Sequence[CaptureRecord]) -> list[CaptureRecord]:
    """Run by run and site by site, each from its first step on."""
    return sorted(records, key=_place)


def _place(record: CaptureRecord) -> tuple[str, int, int, str, int, int]:
    key = record.key
    return (key.run, key.rank, key.layer, key.site, key.step, key.call)
