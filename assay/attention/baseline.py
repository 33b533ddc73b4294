"""The baseline: attention as plain low-precision code would do it, and the error that is fair.

Every operation's result is rounded to the workload's dtype; products accumulate in float32. Inputs,
weights and operands have the precision that is declared of them (precision.py). An implementation
may be off from the float64 reference by at most a small multiple of what this is off. It shares no
code with any implementation, so that they cannot be wrong together.
"""

from collections.abc import Callable

import numpy as np

from assay.attention.precision import PLAIN, Precision
from assay.attention.reference import Result
from assay.workloads.values import rounded
from assay.workloads.visibility import visibility_mask


def attention(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    causal: bool,
    scale: float,
    dtype: str,
    grad_out: np.ndarray,
    visible: np.ndarray | None = None,
    known: Result | None = None,
    precision: Precision = PLAIN,
) -> Result:
    """As `reference.attention`, in `dtype` after every step; float32 arrays hold the values."""

    def to_dtype(values: np.ndarray) -> np.ndarray:
        return rounded(values.astype(np.float32), dtype)

    def product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return precision.product(left, right, dtype)

    q, k, v = map(precision.input, (q, k, v))
    group = q.shape[1] // k.shape[1]
    keys, values = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    if visible is None:
        visible = visibility_mask(q.shape[2], k.shape[2], causal=causal)

    # Rounded once, after scaling: an unscaled score may be beyond what float16 can hold.
    scores = to_dtype(product(q, keys.swapaxes(-1, -2)) * np.float32(scale))
    scores = np.where(visible, scores, np.float32(-np.inf))
    if known:
        out, lse = to_dtype(known.out), known.lse.astype(np.float32)
        probabilities = to_dtype(np.exp(scores - np.where(np.isneginf(lse), 0, lse)[..., None]))
    else:
        row_max = scores.max(axis=-1, keepdims=True)
        row_max = np.where(np.isneginf(row_max), np.float32(0), row_max)
        weights = np.exp(scores - row_max)
        row_sum = weights.sum(axis=-1, keepdims=True)
        row_sum_or_1 = np.where(row_sum == 0, np.float32(1), row_sum)
        probabilities = to_dtype(precision.weights(weights) / row_sum_or_1)
        out = to_dtype(product(probabilities, values))
        with np.errstate(divide="ignore"):
            lse = (row_max + np.log(row_sum))[..., 0]

    grad_p = to_dtype(product(grad_out, values.swapaxes(-1, -2)))
    # From the rounded output, as backward passes by recomputation do.
    delta = (grad_out * out).sum(axis=-1, keepdims=True)
    grad_s = to_dtype(probabilities * (grad_p - delta) * np.float32(scale))
    return Result(
        out=out,
        lse=lse,
        dq=to_dtype(product(grad_s, keys)),
        dk=_sum_group(to_dtype(product(grad_s.swapaxes(-1, -2), q)), group, to_dtype),
        dv=_sum_group(to_dtype(product(probabilities.swapaxes(-1, -2), grad_out)), group, to_dtype),
    )


def _sum_group(
    per_query_head: np.ndarray, group: int, to_dtype: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """[B, H, N, D] to [B, G, N, D], one query head after another, rounded after each."""
    batch, heads, length, dim = per_query_head.shape
    parts = per_query_head.reshape(batch, heads // group, group, length, dim)
    total = parts[:, :, 0]
    for index in range(1, group):
        total = to_dtype(total + parts[:, :, index])
    return total
