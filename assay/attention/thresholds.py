"""Choices that were measured to be the fastest on this machine, from a thresholds file.

`assay law --thresholds FILE` writes that file from records. It is the one that ASSAY_THRESHOLDS
names (none where that is empty), else results/thresholds.json in the working folder, if it exists.
"""

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec

from assay import host
from assay.errors import BadInput

VARIABLE = "ASSAY_THRESHOLDS"
DEFAULT_FILE = Path("results/thresholds.json")
_SCHEMA = 1
_KERNEL = "kernel"  # the level at which a class without a layer is of sequences, not of a cache


class _Choice(msgspec.Struct, frozen=True):
    start: int = msgspec.field(name="from")
    use: str

    @property
    def core(self) -> str:
        """gemma:cudnn is the core cudnn in the layer gemma, int4:dequantised a way to read int4."""
        return self.use.partition(":")[2]


class _Workloads(msgspec.Struct, frozen=True, kw_only=True):
    """Workloads that differ in length alone, and what to use from which number of keys on, between
    the lengths that were measured."""

    level: str
    heads: int
    kv_heads: int
    head_dim: int
    dtype: str
    lengths: list[int]
    choices: list[_Choice]
    layer: str | None = None
    batches: list[int] = []


class _HostThresholds(msgspec.Struct, frozen=True):
    classes: list[_Workloads]


class _Schema(msgspec.Struct, frozen=True):
    schema: int


class _File(_Schema, frozen=True):
    hosts: dict[str, _HostThresholds]


def measured_core(
    *,
    level: str,
    layer: str | None,
    heads: int,
    kv_heads: int,
    head_dim: int,
    dtype: str,
    keys: int,
    usable: Sequence[str],
    batch: int | None = None,
) -> str | None:
    """The fastest of the `usable` ones for attention of these sizes in a layer, or for a layout of
    a cache; None where none was measured, or only shorter lengths, or only longer ones, or other
    batches where one is given.

    Where the file's choice is not usable, the one before it is taken. A file that cannot be read,
    or of another schema, is refused.
    """
    path = _path()
    if path is None:
        return None
    measured = [
        entry
        for entry in _load(path).get(_fingerprint(), _HostThresholds([])).classes
        if entry.level == level
        and (entry.layer == layer or (entry.layer is None and level != _KERNEL))
        and (entry.heads, entry.kv_heads, entry.head_dim) == (heads, kv_heads, head_dim)
        and entry.dtype == dtype
        and min(entry.lengths, default=keys + 1) <= keys <= max(entry.lengths)
        and (
            batch is None
            or min(entry.batches, default=batch + 1) <= batch <= max(entry.batches, default=batch)
        )
    ]
    choices = [
        choice
        for choice in (measured[0].choices if measured else ())
        if choice.core in usable and choice.start <= keys
    ]
    return max(choices, key=lambda choice: choice.start).core if choices else None


def _path() -> Path | None:
    name = os.environ.get(VARIABLE)
    if name is not None:
        return Path(name) if name else None
    return DEFAULT_FILE if DEFAULT_FILE.exists() else None


def _load(path: Path) -> dict[str, _HostThresholds]:
    try:
        content = path.read_bytes()
        schema = msgspec.json.decode(content, type=_Schema).schema
        if schema == _SCHEMA:
            return msgspec.json.decode(content, type=_File).hosts
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(
            f"auto cannot read the thresholds in {path} ({error}); write them again with "
            f"`assay law --thresholds`, set {VARIABLE} to another file or to nothing, "
            "or name what to use"
        ) from error
    raise BadInput(
        f"the thresholds in {path} have schema {schema}, auto reads {_SCHEMA}; write them again "
        "with `assay law --thresholds`, or name what to use"
    )


@cache
def _fingerprint() -> str:
    """Fingerprint of this machine; it cannot change while a process lives."""
    return host.inspect().fingerprint
