"""The backward kernel of keys and values: one owner for each tile, so no atomics.

FlashAttention-2, algorithm 2 (Dao 2023, arXiv:2307.08691). The weights P are computed again from
the scores and the stored normaliser; with dP = dO Vᵀ and dS = P * (dP - delta),
    dV = Pᵀ dO  and  dK = scale * dSᵀ Q,
added up over the queries in a fixed order, so that repeats are bit-equal.

B batch, H query heads, G kv heads, M queries, N keys, D head dimension. q and dO [B, H, M, D],
k, v, dk and dv [B, G, N, D], lse and delta [B, H, M]. A program owns BLOCK_N keys of one kv head
and visits the queries of all H / G heads that read it, BLOCK_M at a time; tiles are BLOCK_D wide.
"""

# Triton infers the types of a kernel's arguments.
# ruff: noqa: ANN001, ANN201

import triton
import triton.language as tl

from assay.attention.sequence.flash2_triton.ranges import query_range, visibility_mask
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
def _accumulate_dkdv(
    dk, dv, k, v, q_ptrs, dout_ptrs, lse_ptr, delta_ptr, q_head, q_row, dout_head, dout_row,
    key_index, M, queries, group, shift, keys, window, scale_log2, start, end,
    HEAD_DIM: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Add Pᵀ dO and dSᵀ Q of the query rows start .. end - 1 of all heads of a group.

    dk, dv, k and v are [BLOCK_N, BLOCK_D]. Heads and rows are one loop, which keeps loads in flight
    from one head to the next. Scores are transposed, [BLOCK_N, BLOCK_M], so that weights feed both
    products as they come. Rows that do not exist are zeros in q, dO and delta, and so add nothing
    whatever their weights are.
    """
    row_offsets = tl.arange(0, BLOCK_M)  # [BLOCK_M]
    tiles = tl.maximum(end - start + BLOCK_M - 1, 0) // BLOCK_M
    # A pipelined loop computes its first addresses before it knows whether it runs at all.
    tiles_per_head = tl.maximum(tiles, 1)
    for turn in tl.range(0, tiles * group):
        head_of_group = turn // tiles_per_head
        first = start + (turn - head_of_group * tiles_per_head) * BLOCK_M
        rows = first + row_offsets  # [BLOCK_M]
        head = tl.cast(head_of_group, tl.int64)
        row = tl.cast(first, tl.int64)
        q = load_tile(
            q_ptrs + (head * q_head + row * q_row), rows, queries, HEAD_DIM, BLOCK_D, False
        )  # [BLOCK_M, BLOCK_D]
        lse = tl.load(lse_ptr + (head * M + row) + row_offsets, mask=rows < queries, other=0.0)
        scores = tl.dot(k, tl.trans(q), input_precision="ieee")  # [BLOCK_N, BLOCK_M]
        p = tl.exp2(scores * scale_log2 - (lse * LOG2_E)[None, :])  # [BLOCK_N, BLOCK_M]
        if MASKED:
            positions = (rows + shift)[None, :]
            visible = visibility_mask(positions, key_index[:, None], keys, window, CAUSAL)
            p = tl.where(visible, p, 0.0)
        dout = load_tile(
            dout_ptrs + (head * dout_head + row * dout_row), rows, queries, HEAD_DIM, BLOCK_D, False
        )  # [BLOCK_M, BLOCK_D]
        dv = tl.dot(p.to(dout.dtype), dout, dv, input_precision="ieee")
        dp = tl.dot(v, tl.trans(dout), input_precision="ieee")  # [BLOCK_N, BLOCK_M]
        delta = tl.load(delta_ptr + (head * M + row) + row_offsets, mask=rows < queries, other=0.0)
        ds = p * (dp - delta[None, :])  # [BLOCK_N, BLOCK_M]
        dk = tl.dot(ds.to(q.dtype), q, dk, input_precision="ieee")
    return dk, dv


@triton.jit(
    do_not_specialize=[
        "M", "N", "heads", "group", "tiles", "pairs", "section",
        "window", "sequences", "search_steps",
    ]
)  # fmt: skip
def dkdv_kernel(
    q_ptr, k_ptr, v_ptr, dout_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr,
    lengths_ptr, cu_q_ptr, cu_k_ptr,
    q_batch, q_head, q_row, q_dim, k_batch, k_head, k_row, k_dim,
    v_batch, v_head, v_row, v_dim, dout_batch, dout_head, dout_row, dout_dim,
    dk_batch, dk_head, dk_row, dk_dim, dv_batch, dv_head, dv_row, dv_dim,
    M, N, heads, group, tiles, pairs, section, window, sequences, search_steps,
    scale, scale_log2,
    HEAD_DIM: tl.constexpr, CAUSAL: tl.constexpr, SPLIT: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Gradients [BLOCK_N, D] of one tile of keys and values, from all query heads that read it."""
    tile, pair = program_tile(tiles, pairs, section)
    kv_heads = heads // group
    batch = pair // kv_heads
    kv_head = pair % kv_heads
    q_start = 0
    queries = M
    k_start = 0
    stored_keys = N
    if cu_k_ptr is not None:
        sequence, tile = packed_sequence(tile, cu_k_ptr, sequences, search_steps, BLOCK_N)
        q_start, queries = sequence_bounds(sequence, cu_q_ptr)
        k_start, stored_keys = sequence_bounds(sequence, cu_k_ptr)
    shift = stored_keys - queries  # bottom-right: row i stands at key i + shift
    keys = stored_keys
    if lengths_ptr is not None:
        keys = tl.minimum(keys, tl.load(lengths_ptr + batch).to(tl.int32))

    first_key = tile * BLOCK_N
    key_index = first_key + tl.arange(0, BLOCK_N)  # [BLOCK_N]
    k_ptrs = tile_ptrs(
        k_ptr, batch, kv_head, k_start + first_key, k_batch, k_head, k_row, k_dim,
        BLOCK_N, BLOCK_D,
    )  # fmt: skip
    v_ptrs = tile_ptrs(
        v_ptr, batch, kv_head, k_start + first_key, v_batch, v_head, v_row, v_dim,
        BLOCK_N, BLOCK_D,
    )  # fmt: skip
    k = load_tile(k_ptrs, key_index, keys, HEAD_DIM, BLOCK_D, False)  # [BLOCK_N, BLOCK_D]
    v = load_tile(v_ptrs, key_index, keys, HEAD_DIM, BLOCK_D, False)  # [BLOCK_N, BLOCK_D]
    dk = tl.full([BLOCK_N, BLOCK_D], 0.0, tl.float32)
    dv = tl.full([BLOCK_N, BLOCK_D], 0.0, tl.float32)
    key_end = tl.minimum(first_key + BLOCK_N, keys)
    begin, inner, outer, end = query_range(
        first_key, key_end, shift, queries, window, CAUSAL, BLOCK_M
    )
    # The first tile of q and dO, [BLOCK_M, BLOCK_D], of the first query head of the group.
    head = kv_head * group
    q_ptrs = tile_ptrs(q_ptr, batch, head, q_start, q_batch, q_head, q_row, q_dim, BLOCK_M, BLOCK_D)
    dout_ptrs = tile_ptrs(
        dout_ptr, batch, head, q_start, dout_batch, dout_head, dout_row, dout_dim,
        BLOCK_M, BLOCK_D,
    )  # fmt: skip
    row_start = (tl.cast(batch, tl.int64) * heads + head) * M + q_start  # into [B * H * M]
    lse_ptr += row_start
    delta_ptr += row_start
    # From the last rows to the first, which the diagonal crosses; only partly visible tiles pay
    # for a mask.
    masked_end = end
    if SPLIT:
        whole_end = end  # rows that do not exist need no mask
        if window is not None:
            dk, dv = _accumulate_dkdv(
                dk, dv, k, v, q_ptrs, dout_ptrs, lse_ptr, delta_ptr,
                q_head, q_row, dout_head, dout_row,
                key_index, M, queries, group, shift, keys, window, scale_log2, outer, end,
                HEAD_DIM, CAUSAL, True, BLOCK_M, BLOCK_D,
            )  # fmt: skip
            whole_end = outer
        dk, dv = _accumulate_dkdv(
            dk, dv, k, v, q_ptrs, dout_ptrs, lse_ptr, delta_ptr,
            q_head, q_row, dout_head, dout_row,
            key_index, M, queries, group, shift, keys, window, scale_log2, inner, whole_end,
            HEAD_DIM, CAUSAL, False, BLOCK_M, BLOCK_D,
        )  # fmt: skip
        masked_end = tl.minimum(inner, end)
    if CAUSAL or window is not None or not SPLIT:
        dk, dv = _accumulate_dkdv(
            dk, dv, k, v, q_ptrs, dout_ptrs, lse_ptr, delta_ptr,
            q_head, q_row, dout_head, dout_row,
            key_index, M, queries, group, shift, keys, window, scale_log2, begin, masked_end,
            HEAD_DIM, CAUSAL, True, BLOCK_M, BLOCK_D,
        )  # fmt: skip

    # Wholly visible tiles are not masked, so hidden keys at the end of the tile have sums as well.
    hidden = (key_index >= keys)[:, None]
    exists = in_bounds(key_index, stored_keys, HEAD_DIM, BLOCK_D)
    dk_ptrs = tile_ptrs(
        dk_ptr, batch, kv_head, k_start + first_key, dk_batch, dk_head, dk_row, dk_dim,
        BLOCK_N, BLOCK_D,
    )  # fmt: skip
    tl.store(dk_ptrs, tl.where(hidden, 0.0, dk * scale).to(dk_ptr.dtype.element_ty), mask=exists)
    dv_ptrs = tile_ptrs(
        dv_ptr, batch, kv_head, k_start + first_key, dv_batch, dv_head, dv_row, dv_dim,
        BLOCK_N, BLOCK_D,
    )  # fmt: skip
    tl.store(dv_ptrs, tl.where(hidden, 0.0, dv).to(dv_ptr.dtype.element_ty), mask=exists)
