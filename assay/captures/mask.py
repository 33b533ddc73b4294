"""Visibility of keys in a captured call, in the words of a workload.

A program says it with a causal flag, a boolean mask, an additive one, or several at once. Here it
becomes one boolean array, and that the plainest workload that means the same: a kernel that skips
what a causal mask hides can then do so. M queries, N keys.
"""

from dataclasses import dataclass

import numpy as np

from assay.captures.manifest import CaptureRecord
from assay.captures.tensor import Tensor
from assay.errors import BadInput
from assay.workloads.visibility import visibility_mask

# An additive mask hides a key by a number so low that its weight is zero in any dtype.
HIDDEN_BELOW = -1e4


@dataclass(frozen=True, kw_only=True)
class CapturedVisibility:
    """`causal`, and on top of it lengths [B] or a mask [B or 1, 1, M, N] where more is hidden."""

    causal: bool
    lengths: np.ndarray | None = None
    mask: np.ndarray | None = None


def captured_visibility(record: CaptureRecord, tensors: dict[str, Tensor]) -> CapturedVisibility:
    """Return what the queries of a record see; BadInput where no workload can say it."""
    batch, _, queries, _ = record.tensors["q"].shape
    keys = record.tensors["k"].shape[2]
    causal = _causal(record, queries, keys)
    if "mask" not in tensors:
        return _plainest(causal[None, None])
    shown = _boolean(tensors["mask"], record)
    shown = shown.reshape((1,) * (4 - shown.ndim) + shown.shape)[..., :keys]
    try:
        shown = np.broadcast_to(shown, (batch, shown.shape[1], queries, keys))
    except ValueError:
        raise BadInput(
            f"{record.name}: its mask {record.tensors['mask'].shape} does not fit "
            f"{batch} rows of {queries} queries and {keys} keys"
        ) from None
    if (shown != shown[:, :1]).any():
        raise BadInput(f"{record.name}: its mask differs between heads, workloads have one for all")
    return _plainest(shown[:, :1] & causal)


def _causal(record: CaptureRecord, queries: int, keys: int) -> np.ndarray:  # [M, N] of bool
    if record.scalars.get("causal") and record.scalars.get("alignment") == "top-left":
        return np.tri(queries, keys, dtype=bool)
    return visibility_mask(queries, keys, causal=bool(record.scalars.get("causal")))


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


def _plainest(visible: np.ndarray) -> CapturedVisibility:  # [B or 1, 1, M, N] of bool
    queries, keys = visible.shape[2:]
    causal = visibility_mask(queries, keys, causal=True)
    # One query that sees all keys is causal too; it is called full, as decoding is.
    if visible.all():
        return CapturedVisibility(causal=False)
    if (visible == causal).all():
        return CapturedVisibility(causal=True)
    within = bool((visible <= causal).all())
    base = causal if within else np.ones_like(causal)
    lengths = visible.any(axis=(1, 2)) @ np.ones(keys, dtype=np.int32)
    padded = base & (np.arange(keys) < lengths[:, None, None, None])
    if (visible == padded).all():
        return CapturedVisibility(causal=within, lengths=lengths.astype(np.int32))
    return CapturedVisibility(causal=within, mask=np.ascontiguousarray(visible))
