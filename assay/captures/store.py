"""A folder of captured attention calls: one manifest, one file per record, shared files by hash.

    STORE/manifest.jsonl
    STORE/records/<run>.r<rank>/<key>.safetensors
    STORE/shared/<digest>.safetensors

A folder under records is made by the one process that writes into it, so two never collide.
"""

import fnmatch
import math
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from assay.captures import manifest, tensor_files
from assay.captures.deltas import AXES, Memory, Remembered, joined
from assay.captures.manifest import CaptureRecord, Manifest, ManifestLine, TensorEntry
from assay.captures.tensor import Tensor
from assay.errors import BadInput
from assay.records.durable import explained, make_folder, sync_folder

MANIFEST = "manifest.jsonl"
RECORDS = "records"
SHARED = "shared"
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LONGEST_CHAIN = 256
_MEMORY_BYTES = 1 << 30
_PARTS = {MANIFEST, RECORDS, SHARED}  # some are there while another process makes the store


@dataclass(frozen=True)
class Store:
    """A store on disk; tensors are read when they are asked for."""

    path: Path
    # So that a chain of deltas that is read in order is read once.
    _memory: Memory = field(
        default_factory=lambda: Memory(_MEMORY_BYTES), repr=False, compare=False
    )
    _known: dict[str, CaptureRecord] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def create(cls, path: Path) -> "Store":
        """Make a store, or open the one that is there."""
        path = Path(path)
        if not (path / MANIFEST).is_file():
            if path.is_dir() and {found.name for found in path.iterdir()} - _PARTS:
                raise BadInput(f"{path} is a folder with other things in it; name a new one")
            make_folder(path / RECORDS)
            make_folder(path / SHARED)
            with explained(path):
                (path / MANIFEST).touch()
                sync_folder(path)
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> "Store":
        """A store that is there."""
        path = Path(path)
        if not (path / MANIFEST).is_file():
            raise BadInput(
                f"{path} is not a store of captures: it has no {MANIFEST}; make one with "
                "`assay capture run --hf MODEL --to DIR` or `with assay.capturing(model, DIR):`"
            )
        return cls(path)

    def manifest(self) -> Manifest:
        """What the store lists now."""
        return manifest.read(self.path / MANIFEST)

    def append(self, lines: Sequence[ManifestLine], *, sync: bool = True) -> None:
        """List what is durable; without `sync`, what a kill leaves but a power cut may not."""
        manifest.append(self.path / MANIFEST, lines, sync=sync)

    def claim(self, run: str, rank: int) -> Path:
        """The folder for the files of one run and rank, which must not be there yet."""
        check_run(run, rank)
        folder = self.path / RECORDS / f"{run}.r{rank}"
        with explained(folder):
            try:
                folder.mkdir()
            except FileExistsError:
                raise BadInput(
                    f"{self.path} already has run {run} of rank {rank}; give another name, or none"
                ) from None
            sync_folder(folder.parent)
        return folder

    def inside(self, name: str) -> Path:
        """The path of a file of the store; one that leads out of it is refused."""
        found = (self.path / name).resolve()
        if not found.is_relative_to(self.path.resolve()):
            raise BadInput(f"{self.path}: its manifest names {name}, a path outside the store")
        return found

    def read(self, record: CaptureRecord) -> dict[str, Tensor]:
        """The tensors of a record, each with the dtype and shape that the manifest says."""
        if record.mode != "full":
            raise BadInput(
                f"{record.name} was captured as {record.mode}: it has no tensors to read; capture "
                "with mode full"
            )
        return self._read(record, ())

    def find(self, text: str) -> list[CaptureRecord]:
        """Records by name, by a pattern (*self_attn*), or by step=3,layer=0:4,phase=decode."""
        everything = self.manifest().records
        found = _selected(everything, text)
        if not found:
            some = ", ".join(record.name for record in everything[:3]) or "none at all"
            raise BadInput(f"{self.path} has no record {text!r}; it has {some}...")
        return found

    def _read(self, record: CaptureRecord, above: tuple[str, ...]) -> dict[str, Tensor]:
        """Those of a record; `above` are the records that are told from it."""
        own = self._file(record.file, record.checksum, record.bytes) if record.file else {}
        base = self._base(record, above)
        found = {}
        for name, entry in record.tensors.items():
            if entry.why is None:
                found[name] = self._tensor(name, entry, own, base, record)
        if base or above:
            self._remember(record, found)
        return found

    def _remember(self, record: CaptureRecord, tensors: Mapping[str, Tensor]) -> None:
        """Keep what the next record may be told from, in copies: the caller may change its own."""
        told = {name for name, entry in record.tensors.items() if entry.delta or name in AXES}
        kept = {n: Tensor(t.dtype, t.bits.copy()) for n, t in tensors.items() if n in told}
        self._memory.keep(record.key, Remembered(record.name, kept, {}))

    def _tensor(
        self,
        name: str,
        entry: TensorEntry,
        own: Mapping[str, Tensor],
        base: Mapping[str, Tensor],
        record: CaptureRecord,
    ) -> Tensor:
        inside = self._file(entry.file, entry.checksum) if entry.file else own
        tensor, before = inside.get(name), base.get(name)
        if tensor is not None and entry.delta:
            tensor = joined(before, tensor, entry.delta) if before else None
        if tensor is None:
            raise BadInput(f"{self.path}: the files of {record.name} have no tensor {name}")
        if (tensor.dtype, tuple(tensor.shape)) != (entry.dtype, tuple(entry.shape)):
            raise BadInput(
                f"{self.path}: {name} of {record.name} is {tensor.dtype} {tensor.shape}, the "
                f"manifest says {entry.dtype} {entry.shape}"
            )
        return tensor

    def _base(self, record: CaptureRecord, above: tuple[str, ...]) -> dict[str, Tensor]:
        """The tensors of the record that this one is told from; none where it is told whole."""
        told = {name: entry.delta for name, entry in record.tensors.items() if entry.delta}
        if not told:
            return {}
        names, chain = {delta.base for delta in told.values()}, (*above, record.name)
        name = names.pop()
        if names or name in chain or len(chain) > _LONGEST_CHAIN:
            raise BadInput(f"{self.path}: {record.name} is told from records that lead nowhere")
        last = self._memory.last(record.key)
        if last and last.name == name and told.keys() <= last.tensors.keys():
            return last.tensors
        base = self._named(name)
        if base is None:
            raise BadInput(f"{self.path}: {record.name} is told from {name}, which is not listed")
        return self._read(base, chain)

    def _named(self, name: str) -> CaptureRecord | None:
        """A listed record; the manifest is read again only where it does not know the name."""
        if name not in self._known:
            self._known.update((record.name, record) for record in self.manifest().records)
        return self._known.get(name)

    def _file(self, name: str, checksum: str | None, size: int | None = None) -> dict[str, Tensor]:
        return tensor_files.read(self.inside(name), checksum=checksum, size=size or None)


def check_run(run: str, rank: int) -> None:
    """Refuse names that could lead out of a store or meet another's."""
    if not _RUN_NAME.fullmatch(run) or rank < 0:
        raise BadInput(
            f"run {run!r}, rank {rank}: a run is named by up to 64 letters, digits, dots, "
            "dashes and underscores, beginning with a letter or digit; a rank is 0 or more"
        )


def new_run_name() -> str:
    """Sorts by time; two processes that begin together still differ."""
    now = time.time()
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now))
    return f"{stamp}.{int(now % 1 * 1000):03d}Z-{os.urandom(4).hex()}"


def _selected(records: Sequence[CaptureRecord], text: str) -> list[CaptureRecord]:
    if "=" in text:
        for part in re.split("[,;]", text):
            records = [record for record in records if _matches(record, part, text)]
        return list(records)
    return [r for r in records if r.name == text or fnmatch.fnmatchcase(r.name, text)]


def _matches(record: CaptureRecord, part: str, text: str) -> bool:
    name, _, wanted = part.partition("=")
    if name in ("step", "layer", "rank", "call"):
        low, colon, high = wanted.partition(":")
        if not low.isdigit() or (high and not high.isdigit()):
            raise BadInput(f"{text!r}: {part!r} wants a whole number, or from:to")
        if not colon:
            return getattr(record.key, name) == int(low)
        return int(low) <= getattr(record.key, name) < (int(high) if high else math.inf)
    texts = {"site": record.key.site, "phase": record.phase, "run": record.key.run}
    if name not in texts:
        raise BadInput(f"{text!r}: {name!r} is not step, layer, rank, call, site, phase or run")
    return fnmatch.fnmatchcase(texts[name], wanted)
