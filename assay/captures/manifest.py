"""Manifest of a store: runs, records, dropped calls and ends, one JSON object per line of a file.

A line is appended under a lock after what it names is durable, so whatever is listed is whole. A
writer that is killed leaves at most a part of a line, which readers pass over and the next writer
ends.
"""

import fcntl
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import msgspec

from assay.errors import BadInput
from assay.records.durable import explained, sync_folder, write_all

SCHEMA = 1
Mode = Literal["full", "stats", "shapes"]
Phase = Literal["train", "prefill", "decode", "eval"]
Order = Literal["BHSD", "BSHD"]
Alignment = Literal["bottom-right", "top-left"]
MODES, ORDERS, ALIGNMENTS = get_args(Mode), get_args(Order), get_args(Alignment)
Scalar = bool | int | float | str | None
TOKENS = "tokens"  # in the model of a run: the tokens of its text, as a JSON list
# Axes of the tensors of a call, where whoever captured it says no others: B rows, H query heads,
# K heads of k and v, Q queries, S keys, D and E features.
LAYOUTS = {
    "q": "BHQD",
    "k": "BKSD",
    "v": "BKSD",
    "out": "BHQD",
    "mask": "BHQS",
    "x": "BQE",
    "positions": "BQ",
    "cache.idx": "B",
    "cache.k": "BSKD",
    "cache.v": "BSKD",
    "layer_out": "BQE",
}
HEADED = ("q", "k", "v", "out")  # tensors of the attention call itself, with an axis of heads
_SITE_LETTERS = 60


class Key(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One call of one attention: no two records of a store share a key."""

    run: str
    step: int
    layer: int  # the attention's place in the model; -1 where it is not known
    site: str  # the path of its module
    rank: int = 0
    call: int = 0  # how often this site was called before in this step

    @property
    def name(self) -> str:
        """Unique name, fit for a file. A site that does not fit is told apart by a digest."""
        site = re.sub(r"[^A-Za-z0-9._-]+", "-", self.site)[-_SITE_LETTERS:]
        if site != self.site:
            site += f"-{hashlib.blake2b(self.site.encode(), digest_size=4).hexdigest()}"
        layer = f"l{self.layer:03d}" if self.layer >= 0 else "lx"
        return f"{self.run}_s{self.step:06d}_{layer}_{site}_r{self.rank}_c{self.call}"

    @property
    def module(self) -> tuple[str, int, int, str]:
        """The attention module, of one rank of one run, that the call is of."""
        return self.run, self.rank, self.layer, self.site


def heads_axis(name: str, layouts: Mapping[str, str] = LAYOUTS) -> int | None:
    """Return the axis of heads of a tensor with four axes; None of a mask, whose last axis holds no
    channels. One that `layouts` does not name lies as q, or as the cache that it is part of."""
    if name == "mask":
        return None
    default = LAYOUTS["cache.k" if name.startswith("cache.") else "q"]
    layout = layouts.get(name) or LAYOUTS.get(name, default)
    return 2 if layout[1] == "S" else 1


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of the finite values of one tensor. `outliers` has the channels (head * dim +
    place) with the largest absolute values, and those values."""

    count: int
    nonfinite: int
    zeros: int
    minimum: float | None
    maximum: float | None
    mean: float | None
    std: float | None
    absmax: float | None
    outliers: list[tuple[int, float]] = []


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """A tensor as a change of the same tensor in the record `base`: the file has the places from
    `start` along `axis`, all others are those of the base."""

    base: str
    axis: int
    start: int


class TensorEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One tensor of a record."""

    dtype: str
    shape: tuple[int, ...]
    stats: Statistics | None = None
    file: str | None = None  # a file that several records share, where it is not in the record's
    checksum: str | None = None  # of that file
    delta: Delta | None = None
    order: str | None = None  # how q, k, v and out lay in memory: BHSD or BSHD
    why: str | None = None  # why it is not stored


class CaptureRecord(msgspec.Struct, frozen=True, kw_only=True, tag="record", tag_field="kind"):
    """One attention call."""

    key: Key
    phase: Phase
    mode: Mode
    framework: str
    device: str
    implementation: str | None  # what computed it in the model, None where that is not known
    tensors: dict[str, TensorEntry]
    scalars: dict[str, Scalar]
    time: str
    cut: dict[str, str] = {}  # what was left out on purpose: heads, positions, rows
    file: str | None = None  # relative to the store; None where no tensor is stored
    checksum: str | None = None
    bytes: int = 0
    schema: int = SCHEMA

    @property
    def name(self) -> str:
        return self.key.name


class CaptureRun(msgspec.Struct, frozen=True, kw_only=True, tag="run", tag_field="kind"):
    """Origin of records: the model, its configuration and the machine."""

    run: str
    rank: int
    time: str
    model: dict[str, Scalar]
    config: dict[str, Scalar]
    versions: dict[str, str]
    host: str
    options: dict[str, Scalar]
    pid: int
    schema: int = SCHEMA


class DroppedCalls(msgspec.Struct, frozen=True, kw_only=True, tag="drops", tag_field="kind"):
    """Calls that were wanted and are not in the store, so far, by reason."""

    run: str
    rank: int
    counts: dict[str, int]
    schema: int = SCHEMA


class RunSummary(msgspec.Struct, frozen=True, kw_only=True, tag="end", tag_field="kind"):
    """Counts of a run, listed when it was closed. A run without this line was killed."""

    run: str
    rank: int
    records: int
    bytes: int  # of files
    dropped: dict[str, int]
    duplicates: int = 0
    schema: int = SCHEMA

    def sentence(self) -> str:
        """Return the counts in words."""
        dropped = ", ".join(f"{count} ({reason})" for reason, count in self.dropped.items())
        size = f"{self.bytes / 1e6:.1f} MB"
        noun = "record" if self.records == 1 else "records"
        return f"captured {self.records} {noun}, {size}; dropped {dropped or 'none'}"


ManifestLine = CaptureRun | CaptureRecord | DroppedCalls | RunSummary
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(ManifestLine)


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Everything that a store lists; records in order of their keys."""

    runs: list[CaptureRun]
    records: list[CaptureRecord]
    drops: list[DroppedCalls]  # the last of each run and rank
    ends: list[RunSummary]
    torn_bytes: int


def append(path: Path, lines: Sequence[ManifestLine], *, sync: bool = True) -> None:
    """Append lines, durably unless `sync` is off; several processes may do so at once."""
    content = _encoder.encode_lines(list(lines))
    with explained(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                content = b"\n" + content  # ends what a killed writer began
            try:
                write_all(descriptor, [memoryview(content)])
                if sync:
                    os.fsync(descriptor)
            except OSError:
                os.ftruncate(descriptor, size)
                raise
            if sync and not size:
                sync_folder(path.parent)
        finally:
            os.close(descriptor)  # and with it the lock


def read(path: Path) -> Manifest:
    """Return all complete lines; of two records with one key the first counts."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from error
    runs, ends, torn_bytes = [], [], 0
    records: dict[Key, CaptureRecord] = {}
    drops: dict[tuple[str, int], DroppedCalls] = {}
    for number, text in enumerate(content.split(b"\n"), start=1):
        line = _decoded(text, path, number) if text else None
        if line is None:
            torn_bytes += len(text)
        elif isinstance(line, CaptureRecord):
            records.setdefault(line.key, line)
        elif isinstance(line, DroppedCalls):
            drops[line.run, line.rank] = line
        else:
            (runs if isinstance(line, CaptureRun) else ends).append(line)
    return Manifest(
        runs=runs,
        records=[records[key] for key in sorted(records)],
        drops=list(drops.values()),
        ends=ends,
        torn_bytes=torn_bytes,
    )


def _decoded(text: bytes, path: Path, number: int) -> ManifestLine | None:
    """Return a line, or None for the part of one that a killed writer left."""
    try:
        line = _decoder.decode(text)
    except (msgspec.ValidationError, RecursionError) as error:
        raise BadInput(
            f"{path}:{number}: not a line of a manifest ({error}); it was changed from outside, "
            "or by another version of assay"
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if line.schema != SCHEMA:
        raise BadInput(f"{path}:{number}: schema {line.schema}, this assay reads {SCHEMA}")
    return line
