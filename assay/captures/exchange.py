"""Records as single files that travel: `attention_inputs_<time>_<key>.npz`, out of a store and in.

A file says all about itself: its note is the record's line of the manifest, with those of its run.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec.structs import asdict, replace

from assay.captures import tensor_files
from assay.captures.manifest import CaptureRecord, CaptureRun, Key, ManifestLine, RunEnd
from assay.captures.recording.captured_call import CapturedCall, LoadedTensors
from assay.captures.recording.options import CaptureOptions
from assay.captures.recording.record_files import RecordFiles
from assay.captures.store import Store, check_run, new_run_name
from assay.captures.tensor import Tensor
from assay.errors import BadInput
from assay.records.durable import make_folder


class Note(CaptureRecord, frozen=True, kw_only=True, tag="record", tag_field="kind"):
    """A record, and what its store says of the run that it belongs to."""

    of: CaptureRun | None = None
    ended: RunEnd | None = None


@dataclass(frozen=True, kw_only=True)
class ImportedCall:
    """One call out of a file, to be taken in."""

    record: CaptureRecord
    tensors: dict[str, Tensor]
    run: CaptureRun
    ended: RunEnd | None = None
    ignored: tuple[str, ...] = ()  # arrays of the file that mean nothing here


@dataclass(frozen=True, kw_only=True)
class ImportReport:
    """What became of each file."""

    added: dict[Path, str] = field(default_factory=dict)  # the name of its record
    present: dict[Path, str] = field(default_factory=dict)  # the same, which was there before
    refused: dict[Path, str] = field(default_factory=dict)  # why
    ignored: dict[Path, tuple[str, ...]] = field(default_factory=dict)  # arrays left out


def export(store: Store, records: Sequence[CaptureRecord], folder: Path) -> list[Path]:
    """Write each record to a file of its own; a file of that name is replaced."""
    listed = store.manifest()
    runs = {(run.run, run.rank): run for run in listed.runs}
    ends = {(end.run, end.rank): end for end in listed.ends}
    make_folder(folder)
    written = []
    for record in records:
        tensors = store.read(record)
        place = (record.key.run, record.key.rank)
        note = _note(record, runs.get(place), ends.get(place))
        stamp = re.sub(r"[^0-9TZ.]", "", record.time)
        path = folder / f"attention_inputs_{stamp}_{record.name}.npz"
        tensor_files.write(path, tensors, note=msgspec.json.encode(note).decode())
        written.append(path)
    return written


def read_exported(path: Path) -> ImportedCall:
    """The record of a file that `export` wrote; BadInput where it is none."""
    tensors, text = tensor_files.read_with_note(path)
    try:
        note = msgspec.json.decode(text, type=Note)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} does not say which call it is of ({error})") from error
    check_run(note.key.run, note.key.rank)
    if note.mode != "full" or note.key.step < 0 or note.key.call < 0:
        raise BadInput(f"{path}: {note.mode}, {note.key} is not what a file of tensors may be")
    _check_tensors(path, note, tensors)
    run = note.of or _unknown_run(note)
    if (run.run, run.rank) != (note.key.run, note.key.rank):
        raise BadInput(f"{path}: its record is of another run than it says")
    return ImportedCall(record=_plain(note), tensors=tensors, run=run, ended=note.ended)


def import_files(
    store: Store, paths: Iterable[Path], read: Callable[[Path], ImportedCall] = read_exported
) -> ImportReport:
    """Add the calls of files to a store. One that is refused does not keep the others out."""
    found = ImportReport()
    filing: RecordFiles | None = None
    listed = store.manifest()
    records = {record.key: record for record in listed.records}
    runs = {(run.run, run.rank) for run in listed.runs}
    for path in paths:
        try:
            one = read(path)
            if one.ignored:
                found.ignored[path] = one.ignored
            if one.record.key in records:
                found.present[path] = _known(store, records[one.record.key], one)
                continue
            filing = filing or RecordFiles(store, _new_folder(store), CaptureOptions())
            record, lines = _filed(filing, one, runs)
            filing.settle(lines)
        except BadInput as error:
            found.refused[path] = str(error)
            continue
        records[record.key] = record
        runs.add((one.run.run, one.run.rank))
        found.added[path] = record.name
    return found


def _new_folder(store: Store) -> Path:
    """A run may come in several imports, so each has a folder of its own."""
    return store.claim(f"imported-{new_run_name()}", 0)


def _filed(
    filing: RecordFiles, one: ImportedCall, runs: set[tuple[str, int]]
) -> tuple[CaptureRecord, list[ManifestLine]]:
    said = one.record
    taken = CapturedCall(
        key=said.key,
        phase=said.phase,
        framework=said.framework,
        device=said.device,
        implementation=said.implementation,
        scalars=said.scalars,
        shapes=said.tensors,
        nbytes=0,
        cut=said.cut,
        time=said.time,
    )
    record = filing.write(filing.prepare(taken, LoadedTensors(tensors=one.tensors)))
    lines: list[ManifestLine] = []
    if (one.run.run, one.run.rank) not in runs:
        lines = [one.run] + ([one.ended] if one.ended else [])
    return record, [*lines, record]


def _known(store: Store, there: CaptureRecord, one: ImportedCall) -> str:
    """The name of a record that is there; refused where it holds something else."""
    before = store.read(there)
    same = before.keys() == one.tensors.keys() and all(
        tensor.digest() == before[name].digest() for name, tensor in one.tensors.items()
    )
    if not same:
        raise BadInput(f"{store.path} has another record {there.name}, with other tensors")
    return there.name


def _note(record: CaptureRecord, run: CaptureRun | None, end: RunEnd | None) -> Note:
    said = asdict(_plain(record))
    return Note(**said, of=run, ended=end)


def _plain(record: CaptureRecord) -> CaptureRecord:
    """A record that says nothing of files: its tensors travel beside it."""
    entries = {
        name: replace(entry, file=None, checksum=None, delta=None)
        for name, entry in record.tensors.items()
    }
    said = {name: getattr(record, name) for name in CaptureRecord.__struct_fields__}
    said |= {"tensors": entries, "file": None, "checksum": None, "bytes": 0}
    return CaptureRecord(**said)


def _check_tensors(path: Path, note: CaptureRecord, tensors: dict[str, Tensor]) -> None:
    said = {
        name: (entry.dtype, tuple(entry.shape))
        for name, entry in note.tensors.items()
        if entry.why is None
    }
    held = {name: (tensor.dtype, tensor.shape) for name, tensor in tensors.items()}
    if said != held:
        odd = sorted({*said.items(), *held.items()} - ({*said.items()} & {*held.items()}))
        raise BadInput(f"{path} holds other tensors than its record says: {odd[0][0]}")


def _unknown_run(record: CaptureRecord) -> CaptureRun:
    key: Key = record.key
    return CaptureRun(
        run=key.run, rank=key.rank, time=record.time, model={}, config={}, versions={}, host="",
        options={}, pid=0,
    )  # fmt: skip
