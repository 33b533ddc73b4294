"""The backward kernel of keys and values: one owner for each tile, so no atomics.

FlashAttention-2, algorithm 2 (Dao 2023, arXiv:2307.08691). The weights P are computed again from
the scores and the stored normaliser; with dP = dO Vᵀ and dS = P * (dP - delta),
    dV = Pᵀ dO  and  dK = scale * dSᵀ Q,
added up over the queries in a fixed order, so that repeats are bit-equal.
"""

# Triton infers the types of a kernel's arguments.
# ruff: noqa: ANN001, ANN201

import triton
import triton.language as tl

from assay.attention.sequence.flash2_triton.ranges import queries_seeing, visible
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
def _gather(
    dk, dv, k, v, q_at, grad_at, lse_at, delta_at, q_head, q_row, grad_head, grad_row,
    keys_at, M, queries, group, shift, keys, window, scale_log2, start, end,
    HEAD_DIM: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Add what the query rows start .. end - 1 of all heads of a group send to a tile of keys.

    Heads and rows are one loop, which keeps loads in flight from one head to the next. Scores are
    transposed, [keys, queries], so that weights feed both products as they come. Rows that do not
    exist are zeros in q, dO and delta, and so add nothing whatever their weights are.
    """
    places = tl.arange(0, BLOCK_M)
    turns = tl.maximum(end - start + BLOCK_M - 1, 0) // BLOCK_M
    # A pipelined loop computes its first addresses before it knows whether it runs at all.
    per_head = tl.maximum(turns, 1)
    for turn in tl.range(0, turns * group):
        served = turn // per_head
        first = start + (turn - served * per_head) * BLOCK_M
        rows = first + places
        head = tl.cast(served, tl.int64)
        row = tl.cast(first, tl.int64)
        q = load_tile(q_at + (head * q_head + row * q_row), rows, queries, HEAD_DIM, BLOCK_D, False)
        lse = tl.load(lse_at + (head * M + row) + places, mask=rows < queries, other=0.0)
        scores = tl.dot(k, tl.trans(q), input_precision="ieee")
        weights = tl.exp2(scores * scale_log2 - (lse * LOG2_E)[None, :])
        if MASKED:
            seen = visible((rows + shift)[None, :], keys_at[:, None], keys, window, CAUSAL)
            weights = tl.where(seen, weights, 0.0)
        grad = load_tile(
            grad_at + (head * grad_head + row * grad_row), rows, queries, HEAD_DIM, BLOCK_D, False
        )
        dv = tl.dot(weights.to(grad.dtype), grad, dv, input_precision="ieee")
        dp = tl.dot(v, tl.trans(grad), input_precision="ieee")
        change = tl.load(delta_at + (head * M + row) + places, mask=rows < queries, other=0.0)
        ds = weights * (dp - change[None, :])
        dk = tl.dot(ds.to(q.dtype), q, dk, input_precision="ieee")
    return dk, dv


@triton.jit(
    do_not_specialize=[
        "M", "N", "heads", "group", "tiles", "pairs", "section",
        "window", "sequences", "search_steps",
    ]
)  # fmt: skip
def dkdv_kernel(
    q_ptr, k_ptr, v_ptr, grad_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr,
    lengths_ptr, cu_q_ptr, cu_k_ptr,
    q_batch, q_head, q_row, q_dim, k_batch, k_head, k_row, k_dim,
    v_batch, v_head, v_row, v_dim, grad_batch, grad_head, grad_row, grad_dim,
    dk_batch, dk_head, dk_row, dk_dim, dv_batch, dv_head, dv_row, dv_dim,
    M, N, heads, group, tiles, pairs, section, window, sequences, search_steps,
    scale, scale_log2,
    HEAD_DIM: tl.constexpr, CAUSAL: tl.constexpr, SPLIT: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Gradients of one tile of keys and values of one kv head, from all query heads it serves."""
    tile, pair = place_of(tl.program_id(0), tiles, pairs, section)
    kv_heads = heads // group
    batch = pair // kv_heads
    kv_head = pair % kv_heads
    q_first = 0
    queries = M
    k_first = 0
    stored_keys = N
    if cu_k_ptr is not None:
        sequence, tile = sequence_of(tile, cu_k_ptr, sequences, search_steps, BLOCK_N)
        q_first, queries = bounds_of(sequence, cu_q_ptr)
        k_first, stored_keys = bounds_of(sequence, cu_k_ptr)
    shift = stored_keys - queries
    keys = stored_keys
    if lengths_ptr is not None:
        keys = tl.minimum(keys, tl.load(lengths_ptr + batch).to(tl.int32))

    first_key = tile * BLOCK_N
    keys_at = first_key + tl.arange(0, BLOCK_N)
    k_at = row_at(k_ptr, batch, kv_head, k_first + first_key, k_batch, k_head, k_row)
    k_at += offsets(k_row, k_dim, BLOCK_N, BLOCK_D)
    v_at = row_at(v_ptr, batch, kv_head, k_first + first_key, v_batch, v_head, v_row)
    v_at += offsets(v_row, v_dim, BLOCK_N, BLOCK_D)
    k = load_tile(k_at, keys_at, keys, HEAD_DIM, BLOCK_D, False)
    v = load_tile(v_at, keys_at, keys, HEAD_DIM, BLOCK_D, False)
    dk = tl.full([BLOCK_N, BLOCK_D], 0.0, tl.float32)
    dv = tl.full([BLOCK_N, BLOCK_D], 0.0, tl.float32)
    key_end = tl.minimum(first_key + BLOCK_N, keys)
    begin, inner, outer, end = queries_seeing(
        first_key, key_end, shift, queries, window, CAUSAL, BLOCK_M
    )
    head = kv_head * group
    q_at = row_at(q_ptr, batch, head, q_first, q_batch, q_head, q_row)
    q_at += offsets(q_row, q_dim, BLOCK_M, BLOCK_D)
    grad_at = row_at(grad_ptr, batch, head, q_first, grad_batch, grad_head, grad_row)
    grad_at += offsets(grad_row, grad_dim, BLOCK_M, BLOCK_D)
    row_sums = (tl.cast(batch, tl.int64) * heads + head) * M + q_first
    lse_at = lse_ptr + row_sums
    delta_at = delta_ptr + row_sums
    masked_end = end
    if SPLIT:
        whole_end = end  # rows that do not exist need no mask
        if window is not None:
            dk, dv = _gather(
                dk, dv, k, v, q_at, grad_at, lse_at, delta_at, q_head, q_row, grad_head, grad_row,
                keys_at, M, queries, group, shift, keys, window, scale_log2, outer, end,
                HEAD_DIM, CAUSAL, True, BLOCK_M, BLOCK_D,
            )  # fmt: skip
            whole_end = outer
        dk, dv = _gather(
            dk, dv, k, v, q_at, grad_at, lse_at, delta_at, q_head, q_row, grad_head, grad_row,
            keys_at, M, queries, group, shift, keys, window, scale_log2, inner, whole_end,
            HEAD_DIM, CAUSAL, False, BLOCK_M, BLOCK_D,
        )  # fmt: skip
        masked_end = tl.minimum(inner, end)
    if CAUSAL or window is not None or not SPLIT:
        dk, dv = _gather(
            dk, dv, k, v, q_at, grad_at, lse_at, delta_at, q_head, q_row, grad_head, grad_row,
            keys_at, M, queries, group, shift, keys, window, scale_log2, begin, masked_end,
            HEAD_DIM, CAUSAL, True, BLOCK_M, BLOCK_D,
        )  # fmt: skip

    # Wholly seen tiles are not masked, so hidden keys at the end of the tile have sums as well.
    hidden = (keys_at >= keys)[:, None]
    exists = inside(keys_at, stored_keys, HEAD_DIM, BLOCK_D)
    dk_at = row_at(dk_ptr, batch, kv_head, k_first + first_key, dk_batch, dk_head, dk_row)
    dk_at += offsets(dk_row, dk_dim, BLOCK_N, BLOCK_D)
    tl.store(dk_at, tl.where(hidden, 0.0, dk * scale).to(dk_ptr.dtype.element_ty), mask=exists)
    dv_at = row_at(dv_ptr, batch, kv_head, k_first + first_key, dv_batch, dv_head, dv_row)
    dv_at += offsets(dv_row, dv_dim, BLOCK_N, BLOCK_D)
    tl.store(dv_at, tl.where(hidden, 0.0, dv).to(dv_ptr.dtype.element_ty), mask=exists)
