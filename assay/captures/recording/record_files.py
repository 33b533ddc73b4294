"""Record files of a run: captured calls turned into files of a store and lines of its manifest.

Files come first; the lines of a batch follow together once its files are durable. A mask, which
many records have alike, is written once, to a file named by its digest. Two processes that meet it
at once write the same file, each in one piece, so it does not matter whose stays.
"""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec.structs import replace

from assay.captures import deltas, formats, tensor_files
from assay.captures.deltas import BaseRecords
from assay.captures.manifest import CaptureRecord, ManifestLine, TensorEntry, heads_axis
from assay.captures.recording.captured_call import CapturedCall, LoadedTensors
from assay.captures.recording.options import CaptureOptions
from assay.captures.statistics import statistics
from assay.captures.store import SHARED, Store
from assay.captures.tensor import Tensor
from assay.errors import BadInput
from assay.records.checksum import checksum_of
from assay.records.durable import explained, sync_folder
from assay.records.run import now

_NOT_GIVEN = "it was not given"


class OverBudget(Exception):
    """The record would take the recording beyond its bytes."""


class AlreadyWritten(Exception):
    """A record of this key was written before."""


@dataclass(frozen=True, kw_only=True)
class PendingRecord:
    """A record and the file that is to be written for it; no path where nothing belongs in one."""

    record: CaptureRecord
    path: Path | None = None
    parts: list[memoryview] = field(default_factory=list)

    @property
    def bases(self) -> set[str]:
        """Names of the records without which this one cannot be read."""
        return {entry.delta.base for entry in self.record.tensors.values() if entry.delta}


class RecordFiles:
    """Writes the records of one run and rank. One thread prepares and lists, any may write."""

    def __init__(self, store: Store, folder: Path, options: CaptureOptions) -> None:
        self._store = store
        self._folder = folder
        self.options = options
        self._bases = BaseRecords(options.queue_bytes)
        self._unsynced: set[Path] = set()  # folders in which names may not be durable yet
        self.bytes = 0  # of files, also of those not yet written and listed

    def prepare(self, call: CapturedCall, loaded: LoadedTensors) -> PendingRecord:
        """Decide what of a call is stored where, within the budget; shared files are written."""
        mode = self.options.mode
        record = CaptureRecord(
            key=call.key,
            phase=call.phase,
            mode=mode,
            framework=call.framework,
            device=call.device,
            implementation=call.implementation,
            tensors=dict(call.shapes),
            scalars=dict(call.scalars),
            cut=dict(call.cut),
            time=call.time or now(),
        )
        if mode == "shapes":
            return PendingRecord(record=record)
        if mode == "stats":
            return PendingRecord(record=replace(record, tensors=_with_statistics(call, loaded)))
        record = replace(record, tensors=_with_tensors(call, loaded.tensors))
        return self._placed(record, call, loaded.tensors)

    def write(self, pending: PendingRecord) -> CaptureRecord:
        """Write the file of a record; return the record with its checksum."""
        if pending.path is None:
            return pending.record
        checksum = tensor_files.write_parts(pending.path, pending.parts, sync=self.options.sync)
        return replace(pending.record, checksum=checksum)

    def append(self, lines: Sequence[ManifestLine]) -> None:
        """Make the names of their files durable, then list them."""
        if any(isinstance(line, CaptureRecord) and line.file for line in lines):
            self._unsynced.add(self._folder)
        if self.options.sync:
            for folder in self._unsynced:
                with explained(folder):
                    sync_folder(folder)
            self._unsynced.clear()
        self._store.append(lines, sync=self.options.sync)

    def discard(self, records: Sequence[CaptureRecord]) -> None:
        """Remove the files of records that could not be written or listed, and all bases: none of
        those may be the base of a later record."""
        self._bases.clear()
        for record in records:
            if record.file:
                with contextlib.suppress(OSError):  # it is listed nowhere, so it harms nobody
                    (self._store.path / record.file).unlink()
                self.bytes -= record.bytes

    def _placed(
        self, record: CaptureRecord, call: CapturedCall, tensors: Mapping[str, Tensor]
    ) -> PendingRecord:
        path = self._folder / f"{record.name}.{self.options.form}"
        if path.exists():
            raise AlreadyWritten
        grows = self.options.deltas and call.phase != "train"  # in training everything changes
        axes = deltas.growing(tensors, call.layouts) if grows else {}
        own, changes = deltas.encode(self._bases.last(record.key), tensors, axes)
        entries = dict(record.tensors)
        for name, delta in changes.items():
            entries[name] = replace(entries[name], delta=delta)
        new_files = self._share_mask(own, entries)
        record = replace(record, tensors=entries)
        note = msgspec.json.encode(record).decode()
        parts = formats.encode(own, form=self.options.form, note=note) if own else []
        size = sum(map(len, parts))
        self._check_budget(size + sum(len(part) for file in new_files.values() for part in file))
        for file, content in new_files.items():
            tensor_files.write_parts(file, content, sync=self.options.sync)
            self.bytes += sum(map(len, content))
        if axes:
            self._bases.keep(record.key, {name: tensors[name] for name in axes}, changes)
        if not parts:
            return PendingRecord(record=record)
        self.bytes += size
        record = replace(record, file=self._name(path), bytes=size)
        return PendingRecord(record=record, path=path, parts=parts)

    def _share_mask(
        self, own: dict[str, Tensor], entries: dict[str, TensorEntry]
    ) -> dict[Path, list[memoryview]]:
        """Move a mask from a record's own file to a shared one; return that where it is new."""
        if (mask := own.pop("mask", None)) is None:
            return {}
        path = self._store.path / SHARED / f"{mask.digest()}.{self.options.form}"
        parts = formats.encode({"mask": mask}, form=self.options.form)
        checksum = checksum_of(parts)
        entries["mask"] = replace(entries["mask"], file=self._name(path), checksum=checksum)
        self._unsynced.add(path.parent)  # also where another process named it a moment ago
        exists = path.is_file() and path.stat().st_size == sum(map(len, parts))
        return {} if exists else {path: parts}

    def _check_budget(self, size: int) -> None:
        if self.options.max_bytes is not None and self.bytes + size > self.options.max_bytes:
            raise OverBudget

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self._store.path))


def _with_tensors(call: CapturedCall, tensors: Mapping[str, Tensor]) -> dict[str, TensorEntry]:
    """Return the entries of tensors; one that was announced and did not come says so."""
    entries = {}
    for name, entry in call.shapes.items():
        missing = name not in tensors and entry.why is None
        entries[name] = replace(entry, why=_NOT_GIVEN) if missing else entry
    for name, tensor in tensors.items():
        entry = entries.setdefault(name, TensorEntry(dtype=tensor.dtype, shape=tensor.shape))
        if (entry.dtype, tuple(entry.shape)) != (tensor.dtype, tensor.shape):
            raise BadInput(
                f"{name} is {tensor.dtype} {tensor.shape}, it was announced as "
                f"{entry.dtype} {tuple(entry.shape)}"
            )
    return entries


def _with_statistics(call: CapturedCall, loaded: LoadedTensors) -> dict[str, TensorEntry]:
    """Return the entries of tensors with the statistics that came, or computed here."""
    computed = dict(loaded.stats)
    for name, tensor in loaded.tensors.items():
        if name not in computed:
            axis = heads_axis(name, call.layouts) if len(tensor.shape) == 4 else None
            computed[name] = statistics(tensor, heads_axis=axis)
    entries = {}
    for name, entry in call.shapes.items():
        why = entry.why or (None if name in computed else _NOT_GIVEN)
        entries[name] = replace(entry, stats=computed.get(name), why=why)
    return entries
