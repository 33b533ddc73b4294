"""Visibility of keys in a captured call, in the words of a workload.

A program says it with a causal flag, a boolean mask, an additive one, or several at once. Here it
becomes one boolean array, and that the plainest workload that means the same: a kernel that skips
what a causal mask hides can then do so. M queries, N keys.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from assay.captures.manifest import CaptureRecord
from assay.captures.tensor import Tensor
from assay.errors import BadInput
from assay.workloads.visibility import visibility_mask

# An additive mask hides a key by a number so low that its weight is zero in any dtype.
HIDDEN_BELOW = -1e4


_BLOCK_ELEMENTS = 1 << 22  # of a mask that are looked at together


@dataclass(frozen=True, kw_only=True)
class CapturedVisibility:
    """`causal`, and on top of it lengths [B] or a mask where more is hidden."""

    causal: bool
    lengths: np.ndarray | None = None
    masked: bool = False


def captured_visibility(record: CaptureRecord, tensors: dict[str, Tensor]) -> CapturedVisibility:
    """Return what the queries of a record see; BadInput where no workload can say it.

    A few rows of the mask are looked at at a time: all of them grow as the length squared.
    """
    queries, keys = _lengths(record)
    if "mask" not in tensors and (queries == keys or not _is_top_left(record)):
        # One query that sees all keys is causal too; it is called full, as decoding is.
        return CapturedVisibility(causal=bool(record.scalars.get("causal")) and queries > 1)
    full = as_causal = within = True
    seen = np.zeros((1, keys), dtype=bool)
    for visible, causal in _blocks(record, tensors):
        full &= bool(visible.all())
        as_causal &= bool((visible == causal).all())
        within &= bool((visible <= causal).all())
        seen = seen | visible.any(axis=(1, 2))
    if full or as_causal:
        return CapturedVisibility(causal=not full)
    lengths = seen.sum(axis=1, dtype=np.int32)
    there = np.arange(keys) < lengths[:, None, None, None]
    padded = all(
        bool((visible == (causal & there if within else there)).all())
        for visible, causal in _blocks(record, tensors)
    )
    return CapturedVisibility(causal=within, lengths=lengths if padded else None, masked=not padded)


def captured_mask(
    record: CaptureRecord, tensors: dict[str, Tensor]
) -> np.ndarray:  # [B or 1, 1, M, N] of bool
    """Return the whole mask of a record."""
    return np.concatenate([visible for visible, _ in _blocks(record, tensors)], axis=2)


def _lengths(record: CaptureRecord) -> tuple[int, int]:
    return record.tensors["q"].shape[2], record.tensors["k"].shape[2]


def _is_top_left(record: CaptureRecord) -> bool:
    causal = record.scalars.get("causal")
    return bool(causal) and record.scalars.get("alignment") == "top-left"


def _blocks(
    record: CaptureRecord, tensors: dict[str, Tensor]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Block by block of m rows: keys that they see, [B or 1, 1, m, N], and those that they would if
    they were causal, [m, N]."""
    queries, keys = _lengths(record)
    mask = _broadcast(record, tensors["mask"]) if "mask" in tensors else None
    width = keys * (mask.shape[0] * mask.shape[1] if mask is not None else 1)
    step = max(1, _BLOCK_ELEMENTS // max(1, width))
    for first in range(0, queries, step):
        rows = np.arange(first, min(first + step, queries))
        causal = visibility_mask(queries, keys, causal=True, rows=rows)
        own = _own_rows(record, rows, queries, keys)[None, None]
        if mask is None:
            yield own, causal
            continue
        bits = mask[:, :, first : first + step]
        shown = _boolean(Tensor(tensors["mask"].dtype, bits), record)
        if (shown != shown[:, :1]).any():
            raise BadInput(
                f"{record.name}: its mask differs between heads, workloads have one for all"
            )
        yield shown[:, :1] & own, causal


def _own_rows(record: CaptureRecord, rows: np.ndarray, queries: int, keys: int) -> np.ndarray:
    """Some rows of what the causal flag alone shows, [m, N] of bool."""
    if _is_top_left(record):
        return np.arange(keys) <= rows[:, None]
    return visibility_mask(queries, keys, causal=bool(record.scalars.get("causal")), rows=rows)


def _broadcast(record: CaptureRecord, mask: Tensor) -> np.ndarray:
    """The bits of a mask as [B, H or 1, M, N], without a copy."""
    queries, keys = _lengths(record)
    batch = record.tensors["q"].shape[0]
    bits = mask.bits.reshape((1,) * (4 - mask.bits.ndim) + mask.shape)[..., :keys]
    try:
        return np.broadcast_to(bits, (batch, bits.shape[1], queries, keys))
    except ValueError:
        raise BadInput(
            f"{record.name}: its mask {record.tensors['mask'].shape} does not fit "
            f"{batch} rows of {queries} queries and {keys} keys"
        ) from None


def _boolean(mask: Tensor, record: CaptureRecord) -> np.ndarray:
    values = mask.numbers()
    if mask.dtype == "bool":
        return values
    hidden = values <= HIDDEN_BELOW
    if ((values != 0) & ~hidden).any():
        raise BadInput(
            f"{record.name}: its mask adds other numbers than 0 and about -infinity to the scores; "
            "workloads have no such bias"
        )
    return ~hidden
