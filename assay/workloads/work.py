"""Work of a workload by formula: operations, bytes that must move, the KV cache.

B batch, H query heads, M queries, N keys, D head dimension. A visible pair costs 2 D operations for
its score and 2 D for its share of the output; the backward pass makes five such products of the
forward's two (Dao, "FlashAttention-2", arXiv 2307.08691, section 4.1). All numbers are exact.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay.records.schema import ELEMENT_BYTES
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload

if TYPE_CHECKING:
    import numpy as np

_LSE_BYTES = 4  # float32, whatever the inputs are


@dataclass(frozen=True, kw_only=True)
class Work:
    """One forward pass and one backward pass."""

    forward_flops: int
    backward_flops: int
    forward_bytes: int
    backward_bytes: int
    kv_cache_bytes: int


def of(workload: Workload) -> Work:
    """The work of a workload, with every mask that it has."""
    return of_pairs(workload.spec, visible_pairs(workload))


def of_pairs(spec: WorkloadSpec, pairs: int) -> Work:
    """The work where queries see `pairs` keys in all, over the batch and for one head.

    Each array is read or written once: q, k, v and out in the forward pass; q, k, v, out, dO and
    the LSE read and dq, dk, dv written in the backward pass.
    """
    query, key = query_bytes(spec), key_bytes(spec)
    lse = _LSE_BYTES * spec.batch * spec.heads * spec.query_length
    forward_flops = 4 * spec.head_dim * spec.heads * pairs
    return Work(
        forward_flops=forward_flops,
        backward_flops=forward_flops * 5 // 2,
        forward_bytes=2 * query + 2 * key,
        backward_bytes=4 * query + 4 * key + lse,
        kv_cache_bytes=2 * key,
    )


def query_bytes(spec: WorkloadSpec) -> int:
    """Of q, and of all that has its shape and dtype: out, dO and dq."""
    rows = spec.batch * spec.heads * spec.query_length
    return rows * spec.head_dim * ELEMENT_BYTES[spec.dtype]


def key_bytes(spec: WorkloadSpec) -> int:
    """Of k, and of all that has its shape and dtype: v, dk and dv."""
    rows = spec.batch * spec.kv_heads * spec.key_length
    return rows * spec.head_dim * ELEMENT_BYTES[spec.dtype]


def visible_pairs(workload: Workload) -> int:
    """Number of keys that the queries of one head see, summed over queries and batch."""
    spec = workload.spec
    if workload.mask is not None:  # as large as what it takes to count it
        per_row = workload.visible.sum(axis=(2, 3), dtype=int)  # [batch or 1, 1]
        return int(per_row.sum()) * (spec.batch // per_row.shape[0])
    limits = {"causal": spec.causal, "window": spec.window}
    if workload.cu_seqlens is not None:
        queries, keys = (starts[1:] - starts[:-1] for starts in workload.cu_seqlens)
        sequences = zip(queries.tolist(), keys.tolist(), strict=True)
        return sum(int(keys_per_query(m, n, **limits).sum()) for m, n in sequences)
    shape = (spec.query_length, spec.key_length)
    if workload.lengths is None:
        return spec.batch * int(keys_per_query(*shape, **limits).sum())
    present = workload.lengths.tolist()
    return sum(int(keys_per_query(*shape, **limits, present=n).sum()) for n in present)


def keys_per_query(
    queries: int, keys: int, *, causal: bool, window: int = 0, present: int | None = None
) -> "np.ndarray":  # [M] of int64
    """Keys that each query sees, aligned bottom-right; only the first `present` keys exist."""
    import numpy as np

    position = np.arange(queries, dtype=np.int64) + keys - queries
    last = position if causal else np.full(queries, keys - 1, dtype=np.int64)
    first = np.zeros(queries, dtype=np.int64)
    if window:
        first = np.maximum(first, position - window + 1)
        last = np.minimum(last, position + window - 1)
    end = keys if present is None else present
    return np.maximum(np.minimum(last, end - 1) - first + 1, 0)
