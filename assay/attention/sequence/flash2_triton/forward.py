"""The forward kernel: one pass over the keys with a running maximum and sum of each row.

FlashAttention-2, algorithm 1 (Dao 2023, arXiv:2307.08691). Scores are kept in base 2, scaled by
scale * log2(e), so that every exponential is one exp2; the normaliser is stored in natural log.

B batch, H query heads, G kv heads, M queries, N keys, D head dimension. q and out [B, H, M, D],
k and v [B, G, N, D], lse [B, H, M]. A program owns BLOCK_M queries of one head and visits the keys
BLOCK_N at a time; tiles are BLOCK_D wide, D padded to a power of two.
"""

# Triton infers the types of a kernel's arguments.
# ruff: noqa: ANN001, ANN201

import triton
import triton.language as tl

from assay.attention.sequence.flash2_triton.ranges import key_range, visibility_mask
from assay.attention.sequence.flash2_triton.tiles import (
    LN_2,
    in_bounds,
    load_tile,
    packed_sequence,
    program_tile,
    sequence_bounds,
    tile_ptrs,
)


@triton.jit
def _attend(
    acc, row_max, row_sum, q, k_ptrs, v_ptrs, k_row, v_row,
    positions, keys, window, scale_log2, start, end,
    HEAD_DIM: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Fold the keys start .. end - 1 into acc [BLOCK_M, BLOCK_D], row_max and row_sum [BLOCK_M].

    Without MASKED every row sees all of these keys, so loads and scores need no mask.
    """
    for first in tl.range(start, end, BLOCK_N):
        key_index = first + tl.arange(0, BLOCK_N)  # [BLOCK_N]
        step = tl.cast(first, tl.int64)
        k = load_tile(k_ptrs + step * k_row, key_index, keys, HEAD_DIM, BLOCK_D, not MASKED)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")  # [BLOCK_M, BLOCK_N], not TF32
        if MASKED:
            visible = visibility_mask(positions[:, None], key_index[None, :], keys, window, CAUSAL)
            scores = tl.where(visible, scores, float("-inf"))
        # tl.max and tl.sum are kernels of Triton's own, which the interpreter may not be able to
        # call (see __init__.py); their combining functions it can.
        tile_max = tl.reduce(scores, 1, tl.standard._elementwise_max)  # [BLOCK_M]
        new_max = tl.maximum(row_max, tile_max * scale_log2)
        subtracted = new_max
        if MASKED:  # a row that has seen nothing yet has no maximum: -inf - -inf would be NaN
            subtracted = tl.where(new_max == float("-inf"), 0.0, new_max)
        p = tl.exp2(scores * scale_log2 - subtracted[:, None])  # [BLOCK_M, BLOCK_N]
        # Online softmax: what was summed under the old maximum is rescaled to the new one.
        rescale = tl.exp2(row_max - subtracted)  # [BLOCK_M]
        row_sum = row_sum * rescale + tl.reduce(p, 1, tl.standard._sum_combine)
        v = load_tile(v_ptrs + step * v_row, key_index, keys, HEAD_DIM, BLOCK_D, not MASKED)
        acc = tl.dot(p.to(v.dtype), v, acc * rescale[:, None], input_precision="ieee")
        row_max = new_max
    return acc, row_max, row_sum


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
    """Output [BLOCK_M, D] and normaliser [BLOCK_M] of one tile of queries of one head."""
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
    q = load_tile(q_ptrs, rows, queries, HEAD_DIM, BLOCK_D, False)  # [BLOCK_M, BLOCK_D]

    acc = tl.full([BLOCK_M, BLOCK_D], 0.0, tl.float32)
    row_max = tl.full([BLOCK_M], float("-inf"), tl.float32)
    row_sum = tl.full([BLOCK_M], 0.0, tl.float32)
    positions = rows + shift  # [BLOCK_M]
    row_end = tl.minimum(first_row + BLOCK_M, queries)
    begin, inner, outer, end = key_range(first_row, row_end, shift, keys, window, CAUSAL, BLOCK_N)
    # Two or three loops where SPLIT: only tiles at the diagonal, a window's edges and the end of
    # the keys pay for a mask. Otherwise one masked loop over all of them.
    masked_from = begin
    if SPLIT:
        if window is not None:
            acc, row_max, row_sum = _attend(
                acc, row_max, row_sum, q, k_ptrs, v_ptrs, k_row, v_row,
                positions, keys, window, scale_log2, begin, tl.minimum(inner, end),
                HEAD_DIM, CAUSAL, True, BLOCK_N, BLOCK_D,
            )  # fmt: skip
        acc, row_max, row_sum = _attend(
            acc, row_max, row_sum, q, k_ptrs, v_ptrs, k_row, v_row,
            positions, keys, window, scale_log2, inner, outer,
            HEAD_DIM, CAUSAL, False, BLOCK_N, BLOCK_D,
        )  # fmt: skip
        masked_from = outer
    acc, row_max, row_sum = _attend(
        acc, row_max, row_sum, q, k_ptrs, v_ptrs, k_row, v_row,
        positions, keys, window, scale_log2, masked_from, end,
        HEAD_DIM, CAUSAL, True, BLOCK_N, BLOCK_D,
    )  # fmt: skip

    fully_masked = row_sum == 0.0  # [BLOCK_M]: rows that see no key give zeros and lse -inf
    out = acc / tl.where(fully_masked, 1.0, row_sum)[:, None]
    out_ptrs = tile_ptrs(
        out_ptr, batch, head, q_start + first_row, out_batch, out_head, out_row, out_dim,
        BLOCK_M, BLOCK_D,
    )  # fmt: skip
    exists = in_bounds(rows, queries, HEAD_DIM, BLOCK_D)
    tl.store(out_ptrs, out.to(out_ptr.dtype.element_ty), mask=exists)
    lse = (row_max + tl.log2(tl.where(fully_masked, 1.0, row_sum))) * LN_2  # row_max is -inf there
    lse_ptrs = lse_ptr + tl.cast(pair, tl.int64) * M + q_start + rows  # [BLOCK_M]
    tl.store(lse_ptrs, lse, mask=rows < queries)
