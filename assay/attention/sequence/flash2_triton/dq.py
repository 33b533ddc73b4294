"""The backward kernel of queries: one owner for each tile, so no atomics.

FlashAttention-2, algorithm 2 (Dao 2023, arXiv:2307.08691). The weights P are computed again from
the scores and the stored normaliser; with dP = dO Vᵀ and dS = P * (dP - delta), dQ = scale * dS K.
"""

# Triton infers the types of a kernel's arguments.
# ruff: noqa: ANN001, ANN201

import triton
import triton.language as tl

from assay.attention.sequence.flash2_triton.ranges import keys_seen, visible
from assay.attention.sequence.flash2_triton.tiles import (
    bounds_of,
    inside,
    load_tile,
    offsets,
    place_of,
    row_at,
    sequence_of,
)

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _collect(
    dq, q, grad, lse, change, k_at, v_at, k_row, v_row,
    positions, keys, window, scale_log2, start, end,
    HEAD_DIM: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Add what the keys start .. end - 1 send to a tile of queries."""
    for first in tl.range(start, end, BLOCK_N):
        columns = first + tl.arange(0, BLOCK_N)
        step = tl.cast(first, tl.int64)
        k = load_tile(k_at + step * k_row, columns, keys, HEAD_DIM, BLOCK_D, not MASKED)
        v = load_tile(v_at + step * v_row, columns, keys, HEAD_DIM, BLOCK_D, not MASKED)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")
        weights = tl.exp2(scores * scale_log2 - (lse * LOG2_E)[:, None])
        if MASKED:
            seen = visible(positions[:, None], columns[None, :], keys, window, CAUSAL)
            weights = tl.where(seen, weights, 0.0)
        dp = tl.dot(grad, tl.trans(v), input_precision="ieee")
        ds = weights * (dp - change[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq, input_precision="ieee")
    return dq


@triton.jit(
    do_not_specialize=[
        "M", "N", "heads", "group", "tiles", "pairs", "section",
        "window", "sequences", "search_steps",
    ]
)  # fmt: skip
def dq_kernel(
    q_ptr, k_ptr, v_ptr, grad_ptr, lse_ptr, delta_ptr, dq_ptr,
    lengths_ptr, cu_q_ptr, cu_k_ptr,
    q_batch, q_head, q_row, q_dim, k_batch, k_head, k_row, k_dim,
    v_batch, v_head, v_row, v_dim, grad_batch, grad_head, grad_row, grad_dim,
    dq_batch, dq_head, dq_row, dq_dim,
    M, N, heads, group, tiles, pairs, section, window, sequences, search_steps,
    scale, scale_log2,
    HEAD_DIM: tl.constexpr, CAUSAL: tl.constexpr, SPLIT: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Gradient of one tile of queries of one head."""
    tile, pair = place_of(tl.program_id(0), tiles, pairs, section)
    if CAUSAL:
        tile = tiles - 1 - tile  # the last rows see most
    batch = pair // heads
    head = pair % heads
    q_first = 0
    queries = M
    k_first = 0
    keys = N
    if cu_q_ptr is not None:
        sequence, tile = sequence_of(tile, cu_q_ptr, sequences, search_steps, BLOCK_M)
        q_first, queries = bounds_of(sequence, cu_q_ptr)
        k_first, keys = bounds_of(sequence, cu_k_ptr)
    shift = keys - queries
    if lengths_ptr is not None:
        keys = tl.minimum(keys, tl.load(lengths_ptr + batch).to(tl.int32))

    first_row = tile * BLOCK_M
    rows = first_row + tl.arange(0, BLOCK_M)
    k_at = row_at(k_ptr, batch, head // group, k_first, k_batch, k_head, k_row)
    k_at += offsets(k_row, k_dim, BLOCK_N, BLOCK_D)
    v_at = row_at(v_ptr, batch, head // group, k_first, v_batch, v_head, v_row)
    v_at += offsets(v_row, v_dim, BLOCK_N, BLOCK_D)
    q_at = row_at(q_ptr, batch, head, q_first + first_row, q_batch, q_head, q_row)
    q_at += offsets(q_row, q_dim, BLOCK_M, BLOCK_D)
    grad_at = row_at(grad_ptr, batch, head, q_first + first_row, grad_batch, grad_head, grad_row)
    grad_at += offsets(grad_row, grad_dim, BLOCK_M, BLOCK_D)
    q = load_tile(q_at, rows, queries, HEAD_DIM, BLOCK_D, False)
    grad = load_tile(grad_at, rows, queries, HEAD_DIM, BLOCK_D, False)
    flat = tl.cast(pair, tl.int64) * M + q_first + rows
    lse = tl.load(lse_ptr + flat, mask=rows < queries, other=0.0)
    change = tl.load(delta_ptr + flat, mask=rows < queries, other=0.0)

    total = tl.full([BLOCK_M, BLOCK_D], 0.0, tl.float32)
    positions = rows + shift
    row_end = tl.minimum(first_row + BLOCK_M, queries)
    begin, inner, outer, end = keys_seen(first_row, row_end, shift, keys, window, CAUSAL, BLOCK_N)
    masked_from = begin
    if SPLIT:
        if window is not None:
            total = _collect(
                total, q, grad, lse, change, k_at, v_at, k_row, v_row,
                positions, keys, window, scale_log2, begin, tl.minimum(inner, end),
                HEAD_DIM, CAUSAL, True, BLOCK_N, BLOCK_D,
            )  # fmt: skip
        total = _collect(
            total, q, grad, lse, change, k_at, v_at, k_row, v_row,
            positions, keys, window, scale_log2, inner, outer,
            HEAD_DIM, CAUSAL, False, BLOCK_N, BLOCK_D,
        )  # fmt: skip
        masked_from = outer
    total = _collect(
        total, q, grad, lse, change, k_at, v_at, k_row, v_row,
        positions, keys, window, scale_log2, masked_from, end,
        HEAD_DIM, CAUSAL, True, BLOCK_N, BLOCK_D,
    )  # fmt: skip

    dq_at = row_at(dq_ptr, batch, head, q_first + first_row, dq_batch, dq_head, dq_row)
    dq_at += offsets(dq_row, dq_dim, BLOCK_M, BLOCK_D)
    exists = inside(rows, queries, HEAD_DIM, BLOCK_D)
    tl.store(dq_at, (total * scale).to(dq_ptr.dtype.element_ty), mask=exists)
