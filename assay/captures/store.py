"""Folder of captured attention calls: one manifest, one file per record, shared files by digest.

    STORE/manifest.jsonl
    STORE/records/<run>.r<rank>/<key>.safetensors
    STORE/shared/<digest>.safetensors

A folder under records is made by the one process that writes into it, so two never collide.
"""

import fnmatch
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from assay.captures import deltas, manifest, tensor_files
from assay.captures.deltas import GROWING, BaseRecords
from assay.captures.manifest import CaptureRecord, Manifest, ManifestLine, TensorEntry
from assay.captures.tensor import Tensor
from assay.errors import BadInput
from assay.records.durable import explained, make_folder, sync_folder
from assay.records.run import now

MANIFEST = "manifest.jsonl"
RECORDS = "records"
SHARED = "shared"
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LONGEST_CHAIN = 256
_BASE_BYTES = 1 << 30
_PARTS = {MANIFEST, RECORDS, SHARED}  # some are there while another process makes the store


@dataclass(frozen=True)
class Store:
    """A store on disk; tensors are read when they are asked for."""

    path: Path
    # So that a chain of deltas that is read in order is read once.
    _bases: BaseRecords = field(
        default_factory=lambda: BaseRecords(_BASE_BYTES), repr=False, compare=False
    )
    _listed: dict[str, CaptureRecord] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def create(cls, path: Path) -> "Store":
        """Make a store, or open the existing one."""
        path = Path(path)
        if not (path / MANIFEST).is_file():
            if path.is_dir() and {entry.name for entry in path.iterdir()} - _PARTS:
                raise BadInput(f"{path} is a folder with other files in it; name a new one")
            make_folder(path / RECORDS)
            make_folder(path / SHARED)
            with explained(path):
                (path / MANIFEST).touch()
                sync_folder(path)
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> "Store":
        """Open an existing store."""
        path = Path(path)
        if not (path / MANIFEST).is_file():
            raise BadInput(
                f"{path} is not a store of captures: it has no {MANIFEST}; make one with "
                "`assay capture run --hf MODEL --to DIR` or `with assay.capturing(model, DIR):`"
            )
        return cls(path)

    def manifest(self) -> Manifest:
        """Read what the store lists now."""
        return manifest.read(self.path / MANIFEST)

    def append(self, lines: Sequence[ManifestLine], *, sync: bool = True) -> None:
        """List what is durable; without `sync`, what survives a kill but maybe not a power cut."""
        manifest.append(self.path / MANIFEST, lines, sync=sync)

    def claim(self, run: str, rank: int) -> Path:
        """Make the folder for the files of one run and rank, which must not exist yet."""
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

    def read(self, record: CaptureRecord) -> dict[str, Tensor]:
        """Return the tensors of a record, each with the dtype and shape that the manifest says."""
        if record.mode != "full":
            raise BadInput(
                f"{record.name} was captured as {record.mode}: it has no tensors to read; capture "
                "with mode full"
            )
        return self._read(record, ())

    def find(self, text: str) -> list[CaptureRecord]:
        """Return records by name, by a pattern (*self_attn*), or by step=3,layer=0:4,phase=eval."""
        everything = self.manifest().records
        matching = _selected(everything, text)
        if not matching:
            some = ", ".join(record.name for record in everything[:3]) or "none at all"
            raise BadInput(f"{self.path} has no record {text!r}; it has {some}...")
        return matching

    def _read(self, record: CaptureRecord, later: tuple[str, ...]) -> dict[str, Tensor]:
        """Read one record; `later` are the records that are deltas of it, the last one first."""
        own = self._file(record.file, record.checksum, record.bytes) if record.file else {}
        base = self._base(record, later)
        tensors = {
            name: self._tensor(name, entry, own, base, record)
            for name, entry in record.tensors.items()
            if entry.why is None
        }
        if base or later:  # in a chain: the next record may be a delta of this one
            names = [n for n in tensors if n in GROWING or record.tensors[n].delta]
            self._bases.keep(record.key, {name: tensors[name] for name in names})
        return tensors

    def _tensor(
        self,
        name: str,
        entry: TensorEntry,
        own: Mapping[str, Tensor],
        base: Mapping[str, Tensor],
        record: CaptureRecord,
    ) -> Tensor:
        held = self._file(entry.file, entry.checksum) if entry.file else own
        tensor = held.get(name)
        if tensor is not None and entry.delta:
            tensor = deltas.decode(base[name], tensor, entry.delta) if name in base else None
        if tensor is None:
            raise BadInput(f"{self.path}: the files of {record.name} have no tensor {name}")
        if (tensor.dtype, tuple(tensor.shape)) != (entry.dtype, tuple(entry.shape)):
            raise BadInput(
                f"{self.path}: {name} of {record.name} is {tensor.dtype} {tensor.shape}, the "
                f"manifest says {entry.dtype} {entry.shape}"
            )
        return tensor

    def _base(self, record: CaptureRecord, later: tuple[str, ...]) -> dict[str, Tensor]:
        """Return the tensors of the record that this one is a delta of; none where it is whole."""
        changed = {name: entry.delta for name, entry in record.tensors.items() if entry.delta}
        if not changed:
            return {}
        names, chain = {delta.base for delta in changed.values()}, (*later, record.name)
        name = names.pop()
        if names or name in chain or len(chain) > _LONGEST_CHAIN:
            raise BadInput(f"{self.path}: {record.name} is a delta of records that lead nowhere")
        last = self._bases.last(record.key)
        if last and last.name == name and changed.keys() <= last.tensors.keys():
            return last.tensors
        if name not in self._listed:
            self._listed.update((listed.name, listed) for listed in self.manifest().records)
        if name not in self._listed:
            raise BadInput(f"{self.path}: {record.name} is a delta of {name}, which is not listed")
        return self._read(self._listed[name], chain)

    def _file(self, name: str, checksum: str | None, size: int | None = None) -> dict[str, Tensor]:
        """Read a file of the store; a path or a link that leads out of it is refused."""
        path = (self.path / name).resolve()
        if not path.is_relative_to(self.path.resolve()):
            raise BadInput(f"{self.path}: its manifest names {name}, a path outside the store")
        return tensor_files.read(path, checksum=checksum, size=size or None)


def check_run(run: str, rank: int) -> None:
    """Refuse names that could lead out of a store or meet another's."""
    if not _RUN_NAME.fullmatch(run) or rank < 0:
        raise BadInput(
            f"run {run!r}, rank {rank}: a run is named by up to 64 letters, digits, dots, "
            "dashes and underscores, beginning with a letter or digit; a rank is 0 or more"
        )


def new_run_name() -> str:
    """Return a name that sorts by time; two processes that begin together still differ."""
    return f"{re.sub('[-:]', '', now())}-{os.urandom(4).hex()}"


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
            raise BadInput(f"{text!r}: {part!r} needs a whole number, or from:to")
        if not colon:
            return getattr(record.key, name) == int(low)
        return int(low) <= getattr(record.key, name) < (int(high) if high else math.inf)
    texts = {"site": record.key.site, "phase": record.phase, "run": record.key.run}
    if name not in texts:
        raise BadInput(f"{text!r}: {name!r} is not step, layer, rank, call, site, phase or run")
    return fnmatch.fnmatchcase(texts[name], wanted)
