"""The forward kernel: one pass over the keys with a running maximum and sum.

FlashAttention-2, algorithm 1 (Dao 2023, arXiv:2307.08691). Scores are kept in base 2, scaled by
scale * log2(e), so that every exponential is one exp2; the normaliser is stored in natural log.
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

LN_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def _attend(
    acc, highest, total, q, k_at, v_at, k_row, v_row,
    positions, keys, window, scale_log2, start, end,
    HEAD_DIM: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Fold the keys start .. end - 1 into each row's output, maximum and sum."""
    for first in tl.range(start, end, BLOCK_N):
        columns = first + tl.arange(0, BLOCK_N)
        step = tl.cast(first, tl.int64)
        k = load_tile(k_at + step * k_row, columns, keys, HEAD_DIM, BLOCK_D, not MASKED)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")
        if MASKED:
            seen = visible(positions[:, None], columns[None, :], keys, window, CAUSAL)
            scores = tl.where(seen, scores, float("-inf"))
        peak = tl.reduce(scores, 1, tl.standard._elementwise_max)
        new = tl.maximum(highest, peak * scale_log2)
        base = new
        if MASKED:  # a row that has seen nothing yet has no maximum to subtract
            base = tl.where(new == float("-inf"), 0.0, new)
        weights = tl.exp2(scores * scale_log2 - base[:, None])
        decay = tl.exp2(highest - base)
        total = total * decay + tl.reduce(weights, 1, tl.standard._sum_combine)
        v = load_tile(v_at + step * v_row, columns, keys, HEAD_DIM, BLOCK_D, not MASKED)
        acc = tl.dot(weights.to(v.dtype), v, acc * decay[:, None], input_precision="ieee")
        highest = new
    return acc, highest, total


@triton.jit(
    do_not_specialize=[
        "M", "N", "heads", "group", "tiles", "pairs", "section",
        "window", "sequences", "search_steps",
    ]
)  # fmt: skip
def forward_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, lengths_ptr, cu_q_ptr, cu_k_ptr,
    q_batch, q_head, q_row, q_dim, k_batch, k_head, k_row, k_dim,
    v_batch, v_head, v_row, v_dim, out_batch, out_head, out_row, out_dim,
    M, N, heads, group, tiles, pairs, section, window, sequences, search_steps, scale_log2,
    HEAD_DIM: tl.constexpr, CAUSAL: tl.constexpr, SPLIT: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Output and normaliser of one tile of queries of one head."""
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
    q = load_tile(q_at, rows, queries, HEAD_DIM, BLOCK_D, False)

    acc = tl.full([BLOCK_M, BLOCK_D], 0.0, tl.float32)
    highest = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.full([BLOCK_M], 0.0, tl.float32)
    positions = rows + shift
    row_end = tl.minimum(first_row + BLOCK_M, queries)
    begin, inner, outer, end = keys_seen(first_row, row_end, shift, keys, window, CAUSAL, BLOCK_N)
    masked_from = begin
    if SPLIT:
        if window is not None:
            acc, highest, total = _attend(
                acc, highest, total, q, k_at, v_at, k_row, v_row,
                positions, keys, window, scale_log2, begin, tl.minimum(inner, end),
                HEAD_DIM, CAUSAL, True, BLOCK_N, BLOCK_D,
            )  # fmt: skip
        acc, highest, total = _attend(
            acc, highest, total, q, k_at, v_at, k_row, v_row,
            positions, keys, window, scale_log2, inner, outer,
            HEAD_DIM, CAUSAL, False, BLOCK_N, BLOCK_D,
        )  # fmt: skip
        masked_from = outer
    acc, highest, total = _attend(
        acc, highest, total, q, k_at, v_at, k_row, v_row,
        positions, keys, window, scale_log2, masked_from, end,
        HEAD_DIM, CAUSAL, True, BLOCK_N, BLOCK_D,
    )  # fmt: skip

    blind = total == 0.0
    out = acc / tl.where(blind, 1.0, total)[:, None]
    out_at = row_at(out_ptr, batch, head, q_first + first_row, out_batch, out_head, out_row)
    out_at += offsets(out_row, out_dim, BLOCK_M, BLOCK_D)
    exists = inside(rows, queries, HEAD_DIM, BLOCK_D)
    tl.store(out_at, out.to(out_ptr.dtype.element_ty), mask=exists)
    lse = (highest + tl.log2(tl.where(blind, 1.0, total))) * LN_2  # -inf where blind
    lse_at = lse_ptr + tl.cast(pair, tl.int64) * M + q_first + rows
    tl.store(lse_at, lse, mask=rows < queries)
