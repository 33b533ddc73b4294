"""Records as single files that travel: `attention_inputs_<time>_<key>.npz`, out of a store and in.

A file is complete in itself: its note is the record's line of the manifest, with those of its run.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec.structs import replace

from assay.captures import tensor_files
from assay.captures.manifest import CaptureRecord, CaptureRun, Key, ManifestLine, RunSummary
from assay.captures.recording.captured_call import CapturedCall, LoadedTensors
from assay.captures.recording.options import CaptureOptions
from assay.captures.recording.record_files import RecordFiles
from assay.captures.store import Store, check_run, new_run_name
from assay.captures.tensor import Tensor
from assay.errors import BadInput
from assay.records.durable import make_folder


class ExchangeNote(CaptureRecord, frozen=True, kw_only=True, tag="record", tag_field="kind"):
    """A record, and what its store says of the run that it belongs to."""

    of: CaptureRun | None = None
    ended: RunSummary | None = None


@dataclass(frozen=True, kw_only=True)
class ImportedCall:
    """One call out of a file, to be added to a store."""

    record: CaptureRecord
    tensors: dict[str, Tensor]
    run: CaptureRun
    ended: RunSummary | None = None
    ignored: tuple[str, ...] = ()  # arrays of the file that mean nothing here


@dataclass(frozen=True, kw_only=True)
class ImportReport:
    """Outcome of an import, by file."""

    added: dict[Path, str] = field(default_factory=dict)  # name of its record
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
        run = (record.key.run, record.key.rank)
        note = ExchangeNote(**_without_files(record), of=runs.get(run), ended=ends.get(run))
        stamp = re.sub(r"[^0-9TZ.]", "", record.time)
        path = folder / f"attention_inputs_{stamp}_{record.name}.npz"
        tensor_files.write(path, store.read(record), note=msgspec.json.encode(note).decode())
        written.append(path)
    return written


def read_exported(path: Path) -> ImportedCall:
    """Read a file that `export` wrote; BadInput where it is none."""
    tensors, text = tensor_files.read_with_note(path)
    try:
        note = msgspec.json.decode(text, type=ExchangeNote)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"{path} does not say which call it is of ({error})") from error
    check_run(note.key.run, note.key.rank)
    if note.mode != "full" or note.key.step < 0 or note.key.call < 0:
        raise BadInput(f"{path}: {note.mode}, {note.key} is not what a file of tensors may be")
    _check_tensors(path, note, tensors)
    run = note.of or unknown_run(note.key, note.time)
    if (run.run, run.rank) != (note.key.run, note.key.rank):
        raise BadInput(f"{path}: its record is of another run than it says")
    record = CaptureRecord(**_without_files(note))
    return ImportedCall(record=record, tensors=tensors, run=run, ended=note.ended)


def import_files(
    store: Store, paths: Iterable[Path], read: Callable[[Path], ImportedCall] = read_exported
) -> ImportReport:
    """Add the calls of files to a store. One that is refused does not keep the others out."""
    report = ImportReport()
    files: RecordFiles | None = None
    listed = store.manifest()
    records = {record.key: record for record in listed.records}
    runs = {(run.run, run.rank) for run in listed.runs}
    for path in paths:
        try:
            call = read(path)
            if call.ignored:
                report.ignored[path] = call.ignored
            if call.record.key in records:
                _check_same(store, records[call.record.key], call)
                report.present[path] = call.record.name
                continue
            if files is None:  # a run may come in several imports, so each has a folder of its own
                folder = store.claim(f"imported-{new_run_name()}", 0)
                files = RecordFiles(store, folder, CaptureOptions())
            record = _add(files, call, new_run=(call.run.run, call.run.rank) not in runs)
        except BadInput as error:
            report.refused[path] = str(error)
            continue
        records[record.key] = record
        runs.add((call.run.run, call.run.rank))
        report.added[path] = record.name
    return report


def unknown_run(key: Key, time: str, **options: str) -> CaptureRun:
    """Return the line of a run of which nothing but its name is known."""
    empty = {"model": {}, "config": {}, "versions": {}, "host": "", "pid": 0}
    return CaptureRun(run=key.run, rank=key.rank, time=time, options=options, **empty)


def _add(files: RecordFiles, call: ImportedCall, *, new_run: bool) -> CaptureRecord:
    record = call.record
    captured = CapturedCall(
        key=record.key,
        phase=record.phase,
        framework=record.framework,
        device=record.device,
        implementation=record.implementation,
        scalars=record.scalars,
        shapes=record.tensors,
        nbytes=0,
        cut=record.cut,
        time=record.time,
    )
    written = files.write(files.prepare(captured, LoadedTensors(tensors=call.tensors)))
    lines: list[ManifestLine | None] = [call.run, call.ended] if new_run else []
    files.append([line for line in (*lines, written) if line])
    return written


def _check_same(store: Store, present: CaptureRecord, call: ImportedCall) -> None:
    """Refuse a call whose key is in the store with other tensors."""
    tensors = store.read(present)
    same = tensors.keys() == call.tensors.keys() and all(
        tensor.digest() == tensors[name].digest() for name, tensor in call.tensors.items()
    )
    if not same:
        raise BadInput(f"{store.path} has another record {present.name}, with other tensors")


def _without_files(record: CaptureRecord) -> dict[str, object]:
    """Return the fields of a record whose tensors travel beside it."""
    entries = {
        name: replace(entry, file=None, checksum=None, delta=None)
        for name, entry in record.tensors.items()
    }
    fields = {name: getattr(record, name) for name in CaptureRecord.__struct_fields__}
    return fields | {"tensors": entries, "file": None, "checksum": None, "bytes": 0}


def _check_tensors(path: Path, note: CaptureRecord, tensors: dict[str, Tensor]) -> None:
    listed = {
        (name, entry.dtype, tuple(entry.shape))
        for name, entry in note.tensors.items()
        if entry.why is None
    }
    held = {(name, tensor.dtype, tensor.shape) for name, tensor in tensors.items()}
    if listed != held:
        raise BadInput(f"{path} holds other tensors than its record says: {min(listed ^ held)[0]}")
