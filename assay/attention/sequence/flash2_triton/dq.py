"""The backward kernel of queries: one owner for each tile, so no atomics.

FlashAttention-2, algorithm 2 (Dao 2023, arXiv:2307.08691). The weights P are computed again from
the scores and the stored normaliser; with dP = dO Vᵀ and dS = P * (dP - delta), dQ = scale * dS K.

B batch, H query heads, G kv heads, M queries, N keys, D head dimension. q, dO and dq [B, H, M, D],
k and v [B, G, N, D], lse and delta [B, H, M]. A program owns BLOCK_M queries of one head and visits
the keys BLOCK_N at a time; tiles are BLOCK_D wide, D padded to a power of two.
"""

# Triton infers the types of a kernel's arguments.
# ruff: noqa: ANN001, ANN201

import triton
import triton.language as tl

from assay.attention.sequence.flash2_triton.ranges import key_range, visibility_mask
from assay.attention.sequence.flash2_triton.tiles import (
    LOG2_E,
    in_bounds,
    load_tile,
    packed_sequence,
    program_tile,
    sequence_bounds,
    tile_ptrs,
)


@triton.jit
def _accumulate_dq(
    dq, q, dout, lse, delta, k_ptrs, v_ptrs, k_row, v_row,
    positions, keys, window, scale_log2, start, end,
    HEAD_DIM: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Add dS K of the keys start .. end - 1 to dq [BLOCK_M, BLOCK_D].

    Without MASKED every row sees all of these keys, so loads and weights need no mask.
    """
    for first in tl.range(start, end, BLOCK_N):
        key_index = first + tl.arange(0, BLOCK_N)  # [BLOCK_N]
        step = tl.cast(first, tl.int64)
        k = load_tile(k_ptrs + step * k_row, key_index, keys, HEAD_DIM, BLOCK_D, not MASKED)
        v = load_tile(v_ptrs + step * v_row, key_index, keys, HEAD_DIM, BLOCK_D, not MASKED)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")  # [BLOCK_M, BLOCK_N]
        p = tl.exp2(scores * scale_log2 - (lse * LOG2_E)[:, None])  # [BLOCK_M, BLOCK_N]
        if MASKED:
            # Set to zero rather than scores to -inf: a fully masked row has an lse of -inf.
            visible = visibility_mask(positions[:, None], key_index[None, :], keys, window, CAUSAL)
            p = tl.where(visible, p, 0.0)
        dp = tl.dot(dout, tl.trans(v), input_precision="ieee")  # [BLOCK_M, BLOCK_N]
        ds = p * (dp - delta[:, None])  # [BLOCK_M, BLOCK_N]
        dq = tl.dot(ds.to(k.dtype), k, dq, input_precision="ieee")
    return dq


@triton.jit(
    do_not_specialize=[
        "M", "N", "heads", "group", "tiles", "pairs", "section",
        "window", "sequences", "search_steps",
    ]
)  # fmt: skip
def dq_kernel(
    q_ptr, k_ptr, v_ptr, dout_ptr, lse_ptr, delta_ptr, dq_ptr,
    lengths_ptr, cu_q_ptr, cu_k_ptr,
    q_batch, q_head, q_row, q_dim, k_batch, k_head, k_row, k_dim,
    v_batch, v_head, v_row, v_dim, dout_batch, dout_head, dout_row, dout_dim,
    dq_batch, dq_head, dq_row, dq_dim,
    M, N, heads, group, tiles, pairs, section, window, sequences, search_steps,
    scale, scale_log2,
    HEAD_DIM: tl.constexpr, CAUSAL: tl.constexpr, SPLIT: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Gradient [BLOCK_M, D] of one tile of queries of one head."""
    tile, pair = program_tile(tiles, pairs, section)
    if CAUSAL:
        tile = tiles - 1 - tile  # the last rows see most keys, so they are begun first
    batch = pair // heads
    head = pair % heads
    q_start = 0
    queries = M
    k_start = 0
    keys = N
    if cu_q_ptr is not None:
        sequence, tile = packed_sequence(tile, cu_q_ptr, sequences, search_steps, BLOCK_M)
        q_start, queries = sequence_bounds(sequence, cu_q_ptr)
        k_start, keys = sequence_bounds(sequence, cu_k_ptr)
    shift = keys - queries  # bottom-right: row i stands at key i + shift
    if lengths_ptr is not None:
        keys = tl.minimum(keys, tl.load(lengths_ptr + batch).to(tl.int32))

    first_row = tile * BLOCK_M
    rows = first_row + tl.arange(0, BLOCK_M)  # [BLOCK_M]
    # The first tile of k and v, [BLOCK_N, BLOCK_D]; the loops add a multiple of the row stride.
    k_ptrs = tile_ptrs(
        k_ptr, batch, head // group, k_start, k_batch, k_head, k_row, k_dim, BLOCK_N, BLOCK_D
    )
    v_ptrs = tile_ptrs(
        v_ptr, batch, head // group, k_start, v_batch, v_head, v_row, v_dim, BLOCK_N, BLOCK_D
    )
    q_ptrs = tile_ptrs(
        q_ptr, batch, head, q_start + first_row, q_batch, q_head, q_row, q_dim, BLOCK_M, BLOCK_D
    )
    dout_ptrs = tile_ptrs(
        dout_ptr, batch, head, q_start + first_row, dout_batch, dout_head, dout_row, dout_dim,
        BLOCK_M, BLOCK_D,
    )  # fmt: skip
    q = load_tile(q_ptrs, rows, queries, HEAD_DIM, BLOCK_D, False)  # [BLOCK_M, BLOCK_D]
    dout = load_tile(dout_ptrs, rows, queries, HEAD_DIM, BLOCK_D, False)  # [BLOCK_M, BLOCK_D]
    offsets = tl.cast(pair, tl.int64) * M + q_start + rows  # [BLOCK_M], into [B * H * M]
    lse = tl.load(lse_ptr + offsets, mask=rows < queries, other=0.0)
    delta = tl.load(delta_ptr + offsets, mask=rows < queries, other=0.0)

    dq = tl.full([BLOCK_M, BLOCK_D], 0.0, tl.float32)
    positions = rows + shift  # [BLOCK_M]
    row_end = tl.minimum(first_row + BLOCK_M, queries)
    begin, inner, outer, end = key_range(first_row, row_end, shift, keys, window, CAUSAL, BLOCK_N)
    # As in the forward kernel: only partly visible tiles pay for a mask.
    masked_from = begin
    if SPLIT:
        if window is not None:
            dq = _accumulate_dq(
                dq, q, dout, lse, delta, k_ptrs, v_ptrs, k_row, v_row,
                positions, keys, window, scale_log2, begin, tl.minimum(inner, end),
                HEAD_DIM, CAUSAL, True, BLOCK_N, BLOCK_D,
            )  # fmt: skip
        dq = _accumulate_dq(
            dq, q, dout, lse, delta, k_ptrs, v_ptrs, k_row, v_row,
            positions, keys, window, scale_log2, inner, outer,
            HEAD_DIM, CAUSAL, False, BLOCK_N, BLOCK_D,
        )  # fmt: skip
        masked_from = outer
    dq = _accumulate_dq(
        dq, q, dout, lse, delta, k_ptrs, v_ptrs, k_row, v_row,
        positions, keys, window, scale_log2, masked_from, end,
        HEAD_DIM, CAUSAL, True, BLOCK_N, BLOCK_D,
    )  # fmt: skip

    dq_ptrs = tile_ptrs(
        dq_ptr, batch, head, q_start + first_row, dq_batch, dq_head, dq_row, dq_dim,
        BLOCK_M, BLOCK_D,
    )  # fmt: skip
    exists = in_bounds(rows, queries, HEAD_DIM, BLOCK_D)
    tl.store(dq_ptrs, (dq * scale).to(dq_ptr.dtype.element_ty), mask=exists)
