"""The reference: attention in NumPy float64 with analytic gradients.

B batch, H query heads, G kv heads, M queries, N keys, D head dimension. Query head h reads kv head
h // (H // G). `causal` is aligned bottom-right: query i sees keys up to i + N - M. A query that
may see no key gives zeros, LSE -inf and zero gradients.
"""

from dataclasses import dataclass

import numpy as np

from assay.workloads.visibility import visibility_mask


@dataclass(frozen=True, kw_only=True)
class Result:
    """Output, natural-log normaliser and, where a gradient was sent back, gradients."""

    out: np.ndarray  # [B, H, M, D]
    lse: np.ndarray  # [B, H, M]
    dq: np.ndarray | None = None  # [B, H, M, D]
    dk: np.ndarray | None = None  # [B, G, N, D]
    dv: np.ndarray | None = None  # [B, G, N, D]


def attention(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    causal: bool,
    scale: float,
    grad_out: np.ndarray | None = None,
    visible: np.ndarray | None = None,
    known: Result | None = None,
) -> Result:
    """softmax(scale * q kᵀ + mask) v, and its gradients for `grad_out`.

    `visible`, [B or 1, H or 1, M, N] of bool, replaces `causal` where it is given. `known` has the
    output and LSE over all keys where k and v hold only some of them: dk and dv of those come
    back, beside what was known.
    """
    q, k, v = (np.asarray(array, dtype=np.float64) for array in (q, k, v))
    group = q.shape[1] // k.shape[1]
    keys, values = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)  # [B, H, N, D]

    scores = scale * (q @ keys.swapaxes(-1, -2))  # [B, H, M, N]
    if visible is None:
        visible = visibility_mask(*scores.shape[-2:], causal=causal)
    scores = np.where(visible, scores, -np.inf)
    if known:
        out, lse = known.out, known.lse
        probabilities = np.exp(scores - np.where(np.isneginf(lse), 0.0, lse)[..., None])
    else:
        row_max = scores.max(axis=-1, keepdims=True)
        row_max = np.where(np.isneginf(row_max), 0.0, row_max)  # a row that sees nothing
        weights = np.exp(scores - row_max)
        row_sum = weights.sum(axis=-1, keepdims=True)
        with np.errstate(divide="ignore"):
            lse = (row_max + np.log(row_sum))[..., 0]
        probabilities = weights / np.where(row_sum == 0.0, 1.0, row_sum)
        out = probabilities @ values
    if grad_out is None:
        return Result(out=out, lse=lse)

    grad = np.asarray(grad_out, dtype=np.float64)
    grad_p = grad @ values.swapaxes(-1, -2)  # [B, H, M, N]
    delta = (grad * out).sum(axis=-1, keepdims=True)  # [B, H, M, 1]
    grad_s = probabilities * (grad_p - delta)
    return Result(
        out=out,
        lse=lse,
        dq=scale * (grad_s @ keys),
        dk=sum_group(scale * (grad_s.swapaxes(-1, -2) @ q), group),
        dv=sum_group(probabilities.swapaxes(-1, -2) @ grad, group),
    )


def sum_group(per_query_head: np.ndarray, group: int) -> np.ndarray:
    """[B, H, N, D] to [B, G, N, D]: the sum over all query heads that read a kv head."""
    batch, heads, length, dim = per_query_head.shape
    return per_query_head.reshape(batch, heads // group, group, length, dim).sum(axis=2)
