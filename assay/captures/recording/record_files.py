"""Turns what was taken from a model into files of a store and the lines that list them.

Files come first; the lines of a batch follow together once its files are durable.
"""

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec.structs import replace

from assay.captures import deltas, formats, tensor_files
from assay.captures.deltas import Memory
from assay.captures.manifest import CaptureRecord, Delta, ManifestLine, Statistics, TensorEntry
from assay.captures.recording.captured_call import CapturedCall, LoadedTensors
from assay.captures.recording.options import CaptureOptions
from assay.captures.recording.shared_files import NAMES, SharedFile, SharedFiles
from assay.captures.statistics import statistics
from assay.captures.store import SHARED, Store
from assay.captures.tensor import Tensor
from assay.errors import BadInput
from assay.records.durable import explained, sync_folder


class OverBudget(Exception):
    """The record would take the recording beyond its bytes."""


class AlreadyThere(Exception):
    """A record of this key was written before."""


@dataclass(frozen=True, kw_only=True)
class Pending:
    """A record whose file is to be written, and that file; none where nothing belongs in one."""

    record: CaptureRecord
    path: Path | None = None
    parts: list[memoryview] = field(default_factory=list)

    @property
    def told_from(self) -> set[str]:
        """The names of records without which this one cannot be read."""
        return {entry.delta.base for entry in self.record.tensors.values() if entry.delta}


class RecordFiles:
    """Files the records of one run and rank. One thread prepares and settles, any may write."""

    def __init__(self, store: Store, folder: Path, options: CaptureOptions) -> None:
        self._store = store
        self._folder = folder
        self._options = options
        self._memory = Memory(options.queue_bytes)
        self._shared = SharedFiles(store.path / SHARED, form=options.form, sync=options.sync)
        self.bytes = 0  # of files, also of those not yet written and listed

    @property
    def reads(self) -> bool:
        """Whether tensors are looked at at all."""
        return self._options.mode != "shapes"

    @property
    def has_files(self) -> bool:
        """Whether records have files, or only lines."""
        return self._options.mode == "full"

    def prepare(self, taken: CapturedCall, loaded: LoadedTensors) -> Pending:
        """Decide what is stored where, within the budget."""
        record = _described(taken, self._options.mode)
        if self._options.mode == "shapes":
            return Pending(record=record)
        if self._options.mode == "stats":
            return Pending(record=replace(record, tensors=_with_statistics(taken, loaded)))
        record = replace(record, tensors=_entries(taken, loaded.tensors))
        return self._placed(record, taken, dict(loaded.tensors))

    def write(self, pending: Pending) -> CaptureRecord:
        """Write the file of a record; the record with its checksum."""
        if pending.path is None:
            return pending.record
        checksum = tensor_files.write_parts(pending.path, pending.parts, sync=self._options.sync)
        return replace(pending.record, checksum=checksum)

    def settle(self, lines: Sequence[ManifestLine]) -> None:
        """Make the names of their files durable, then list them."""
        if self._options.sync and any(isinstance(one, CaptureRecord) and one.file for one in lines):
            with explained(self._folder):
                sync_folder(self._folder)
        self._shared.settle()
        self._store.append(lines, sync=self._options.sync)

    def discard(self, records: Sequence[CaptureRecord]) -> None:
        """Take back what could not be written or listed. None may be a base of later records."""
        self._memory.clear()
        for record in records:
            if record.file:
                with contextlib.suppress(OSError):  # it is listed nowhere, so it harms nobody
                    (self._store.path / record.file).unlink()
                self.bytes -= record.bytes

    def _placed(
        self, record: CaptureRecord, taken: CapturedCall, tensors: dict[str, Tensor]
    ) -> Pending:
        path = self._folder / f"{record.name}.{self._options.form}"
        if path.exists():
            raise AlreadyThere
        axes = self._axes(taken, tensors)
        last = self._memory.last(record.key) if axes else None
        own, changes = deltas.told_from(last, tensors, axes)
        shared = {name: self._shared.of(name, own.pop(name)) for name in NAMES if name in own}
        record = replace(record, tensors=self._told(record.tensors, changes, shared))
        parts = self._parts(record, own)
        size = sum(map(len, parts))
        total = size + sum(file.new_bytes for file in shared.values())
        if self._options.max_bytes is not None and self.bytes + total > self._options.max_bytes:
            raise OverBudget
        for file in shared.values():
            self._shared.write(file)
            self.bytes += file.new_bytes
        if axes:
            kept = deltas.remembered(record.name, tensors, axes, changes, last)
            self._memory.keep(record.key, kept)
        if not parts:
            return Pending(record=record)
        self.bytes += size
        name = str(path.relative_to(self._store.path))
        return Pending(record=replace(record, file=name, bytes=size), path=path, parts=parts)

    def _axes(self, taken: CapturedCall, tensors: Mapping[str, Tensor]) -> dict[str, int]:
        """Along which tensors may be told by what changed; in training everything changes."""
        if not self._options.deltas or taken.phase == "train":
            return {}
        return {n: a for n, a in {**deltas.AXES, **taken.axes}.items() if n in tensors}

    def _told(
        self,
        entries: Mapping[str, TensorEntry],
        changes: Mapping[str, Delta],
        shared: Mapping[str, SharedFile],
    ) -> dict[str, TensorEntry]:
        """What the manifest says of where each tensor is."""
        placed = dict(entries)
        for name, delta in changes.items():
            placed[name] = replace(placed[name], delta=delta)
        for name, file in shared.items():
            where = str(file.path.relative_to(self._store.path))
            placed[name] = replace(placed[name], file=where, checksum=file.checksum)
        return placed

    def _parts(self, record: CaptureRecord, own: Mapping[str, Tensor]) -> list[memoryview]:
        if not own:
            return []
        note = msgspec.json.encode(record).decode()
        return formats.encode(own, form=self._options.form, note=note)


def now() -> str:
    """The time of day, in UTC, to the millisecond."""
    moment = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment))
    return f"{stamp}.{int(moment % 1 * 1000):03d}Z"


def _described(taken: CapturedCall, mode: str) -> CaptureRecord:
    return CaptureRecord(
        key=taken.key,
        phase=taken.phase,
        mode=mode,
        framework=taken.framework,
        device=taken.device,
        implementation=taken.implementation,
        tensors=dict(taken.shapes),
        scalars=dict(taken.scalars),
        cut=dict(taken.cut),
        time=taken.time or now(),
    )


def _entries(taken: CapturedCall, tensors: Mapping[str, Tensor]) -> dict[str, TensorEntry]:
    """What the manifest says of each tensor; what was promised and did not come says so."""
    found = {}
    for name, entry in taken.shapes.items():
        if name not in tensors and entry.why is None:
            entry = replace(entry, why="it was not given")
        found[name] = entry
    for name, tensor in tensors.items():
        entry = found.setdefault(name, TensorEntry(dtype=tensor.dtype, shape=tensor.shape))
        if (entry.dtype, tuple(entry.shape)) != (tensor.dtype, tensor.shape):
            raise BadInput(
                f"{name} is {tensor.dtype} {tensor.shape}, it was announced as "
                f"{entry.dtype} {tuple(entry.shape)}"
            )
    return found


def _with_statistics(taken: CapturedCall, loaded: LoadedTensors) -> dict[str, TensorEntry]:
    found: dict[str, Statistics] = dict(loaded.stats)
    for name, tensor in loaded.tensors.items():
        if name not in found:
            found[name] = statistics(tensor, heads_axis=_heads_axis(name, tensor, taken))
    entries = {}
    for name, entry in taken.shapes.items():
        why = entry.why or (None if name in found else "it was not given")
        entries[name] = replace(entry, stats=found.get(name), why=why)
    return entries


def _heads_axis(name: str, tensor: Tensor, taken: CapturedCall) -> int | None:
    """Axis 1 of [B, H, S, D]; axis 2 where the sequence is axis 1."""
    if len(tensor.shape) != 4 or name == "mask":
        return None
    return 2 if taken.axes.get(name, 1 if name.startswith("cache.") else 2) == 1 else 1
