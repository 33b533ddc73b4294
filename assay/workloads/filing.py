"""Turns what was taken from a model into files of a store and the lines that list them.

Files come first; the lines of a batch follow together once its files are durable.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from assay.errors import BadInput
from assay.records.durable import explained, sync_folder
from assay.workloads import tensor_files
from assay.workloads.manifest import CaptureRecord, Line, Statistics, TensorEntry
from assay.workloads.selection import Options
from assay.workloads.statistics import statistics
from assay.workloads.store import Store
from assay.workloads.taken import Loaded, Taken
from assay.workloads.tensor import Tensor


class OverBudget(Exception):
    """The record would take the recording beyond its bytes."""


class AlreadyThere(Exception):
    """A record of this key was written before."""


class Filing:
    """Writes the records of one run and rank; used by one thread."""

    def __init__(self, store: Store, folder: Path, options: Options) -> None:
        self._store = store
        self._folder = folder
        self._options = options
        self.bytes = 0  # of files, also of those not yet listed

    @property
    def reads(self) -> bool:
        """Whether tensors are looked at at all."""
        return self._options.mode != "shapes"

    def file(self, taken: Taken, loaded: Loaded) -> CaptureRecord:
        """Write what belongs in files; the record that says where."""
        record = _described(taken, self._options.mode)
        if self._options.mode == "shapes":
            return record
        if self._options.mode == "stats":
            return msgspec.structs.replace(record, tensors=_with_statistics(taken, loaded))
        entries = _entries(taken, loaded.tensors)
        record = msgspec.structs.replace(record, tensors=entries)
        return self._written(record, dict(loaded.tensors))

    def settle(self, lines: Sequence[Line]) -> None:
        """Make the names of their files durable, then list them."""
        if self._options.sync and any(isinstance(one, CaptureRecord) and one.file for one in lines):
            with explained(self._folder):
                sync_folder(self._folder)
        self._store.append(lines)

    def discard(self, records: list[CaptureRecord]) -> None:
        """Take back files that could not be listed."""
        for record in records:
            if record.file:
                (self._store.path / record.file).unlink(missing_ok=True)
                self.bytes -= record.bytes

    def _written(self, record: CaptureRecord, tensors: dict[str, Tensor]) -> CaptureRecord:
        if not tensors:
            return record
        path = self._folder / f"{record.name}.{self._options.form}"
        if path.exists():
            raise AlreadyThere
        note = msgspec.json.encode(record).decode()
        parts = tensor_files.encoded(tensors, form=self._options.form, note=note)
        size = sum(map(len, parts))
        if self._options.max_bytes is not None and self.bytes + size > self._options.max_bytes:
            raise OverBudget
        checksum = tensor_files.write_parts(path, parts, sync=self._options.sync)
        self.bytes += size
        name = str(path.relative_to(self._store.path))
        return msgspec.structs.replace(record, file=name, checksum=checksum, bytes=size)


def now() -> str:
    """The time of day, in UTC, to the millisecond."""
    moment = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment))
    return f"{stamp}.{int(moment % 1 * 1000):03d}Z"


def _described(taken: Taken, mode: str) -> CaptureRecord:
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
        time=now(),
    )


def _entries(taken: Taken, tensors: Mapping[str, Tensor]) -> dict[str, TensorEntry]:
    """What the manifest says of each tensor; what was promised and did not come says so."""
    found = {}
    for name, entry in taken.shapes.items():
        if name not in tensors and entry.why is None:
            entry = msgspec.structs.replace(entry, why="it was not given")
        found[name] = entry
    for name, tensor in tensors.items():
        entry = found.setdefault(name, TensorEntry(dtype=tensor.dtype, shape=tensor.shape))
        if (entry.dtype, tuple(entry.shape)) != (tensor.dtype, tensor.shape):
            raise BadInput(
                f"{name} is {tensor.dtype} {tensor.shape}, it was announced as "
                f"{entry.dtype} {tuple(entry.shape)}"
            )
    return found


def _with_statistics(taken: Taken, loaded: Loaded) -> dict[str, TensorEntry]:
    found: dict[str, Statistics] = dict(loaded.stats)
    for name, tensor in loaded.tensors.items():
        if name not in found:
            found[name] = statistics(tensor, heads_axis=_heads_axis(name, tensor, taken))
    entries = {}
    for name, entry in taken.shapes.items():
        why = entry.why or (None if name in found else "it was not given")
        entries[name] = msgspec.structs.replace(entry, stats=found.get(name), why=why)
    return entries


def _heads_axis(name: str, tensor: Tensor, taken: Taken) -> int | None:
    """Axis 1 of [B, H, S, D]; axis 2 where the sequence is axis 1."""
    if len(tensor.shape) != 4 or name == "mask":
        return None
    return 2 if taken.axes.get(name, 1 if name.startswith("cache.") else 2) == 1 else 1
