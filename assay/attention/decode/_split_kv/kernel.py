"""The kernel of decoding: a few new queries against all that a cache keeps, in one launch.

A program takes one sequence, one kv head with all its query heads (and new tokens), and one of
`splits` parts of the keys, so that every byte of the cache is read once. It leaves its part of the
output, normalised, and the log of its sum; the program that is the last of its sequence and head to
arrive merges the parts, in their order: the result does not depend on which that is.

Keys are the rows of every product and queries its columns, for tensor cores take 16 rows and 8
columns: 4 query heads of a kv head leave half of them idle, not three quarters.

Numbers of few bits are never scaled one by one. A scale of a token multiplies scores (keys) or
weights (values): weights times scales are taken relative to a power of two near their own running
maximum, so they are at most 4 and exact enough in float16, whatever the scales. Where GROUP numbers
of a token share a scale, a query takes a column for each group, in which its other numbers are
zero: columns that would be idle do that work.

Legend: N keys of a tile, M columns (new tokens x query heads of a kv head x groups), W words of a
vector, Z groups of a vector. Part i of a vector has its numbers i, PACK + i, 2 PACK + i, ...
"""

# Triton infers the types of a kernel's arguments.
# ruff: noqa: ANN001

import triton
import triton.language as tl

from assay.attention.decode._split_kv.parts import LN_2, LOG2_E, merge_parts, share_of_tiles
from assay.attention.decode._split_kv.tiles import (
    add_values,
    by_column,
    for_groups,
    load_scales,
    products,
    query_part,
    split_exponent,
    sum_groups,
)


@triton.jit(do_not_specialize=["keys", "new", "splits", "pages_row"])
def decode_kernel(
    q_ptr, k_ptr, k_scale_ptr, v_ptr, v_scale_ptr, out_ptr, lse_ptr,
    partial_ptr, partial_lse_ptr, arrivals_ptr, lengths_ptr, pages_ptr,
    scale, keys, new, kv_heads, splits, pages_row,
    q_batch, q_head, q_row, k_block, k_head, k_row, ks_block, ks_head, ks_row,
    v_block, v_head, v_row, vs_block, vs_head, vs_row,
    K_FORMAT: tl.constexpr, V_FORMAT: tl.constexpr, K_PACK: tl.constexpr, V_PACK: tl.constexpr,
    GROUP: tl.constexpr, GROUPS: tl.constexpr, HEADS: tl.constexpr, HEAD_DIM: tl.constexpr,
    PAGE: tl.constexpr, SPLIT: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr,
    K_WORDS: tl.constexpr, V_WORDS: tl.constexpr, COLUMNS: tl.constexpr, AT_ONCE: tl.constexpr,
    PLAIN: tl.constexpr, NUMBERS: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """q [B, G HEADS, new, D], out likewise, contiguous; lse [B, G HEADS, new].

    k and v [B, G, keys, words], or pages [pages, G, PAGE, words] by tables [B, pages_row]; scales
    of bfloat16 as int16 beside them. New token i of a sequence of `length` keys sees the keys up to
    length - new + i. `partial` [B, G, blocks of rows, splits, rows, D] and `partial_lse` are
    scratch; `arrivals` [B, G, blocks of rows] is zero before and after.
    """
    K_GROUPED: tl.constexpr = (K_FORMAT == "int8") or (K_FORMAT == "int4")
    V_GROUPED: tl.constexpr = (V_FORMAT == "int8") or (V_FORMAT == "int4")
    K_SCALED: tl.constexpr = K_FORMAT != "whole"
    V_SCALED: tl.constexpr = V_FORMAT != "whole"
    K_GROUPS: tl.constexpr = GROUPS if K_GROUPED else 1
    V_GROUPS: tl.constexpr = GROUPS if V_GROUPED else 1
    K_COLUMNS: tl.constexpr = ROWS * K_GROUPS
    V_COLUMNS: tl.constexpr = ROWS * V_GROUPS

    split = tl.program_id(0) % splits
    slot = tl.program_id(0) // splits  # of a sequence and a kv head
    block = tl.program_id(1)  # of rows
    batch = (slot // kv_heads).to(tl.int64)
    head = (slot % kv_heads).to(tl.int64)
    length, first_tile, last_tile = share_of_tiles(keys, lengths_ptr, batch, split, splits, BLOCK_N)

    rows = block * ROWS + tl.arange(0, ROWS)  # [M], of new tokens and query heads
    seen = length - new + rows // HEADS + 1  # [M], keys that a row sees
    k_columns = tl.arange(0, K_COLUMNS)  # [M Z], a row's groups side by side
    q_row_of = block * ROWS + k_columns // K_GROUPS
    q_exists = q_row_of < new * HEADS
    q_group = k_columns % K_GROUPS
    q_ptrs = q_ptr + batch * q_batch + (head * HEADS + q_row_of % HEADS) * q_head
    q_ptrs += (q_row_of // HEADS) * q_row
    k_lanes = tl.arange(0, K_WORDS)
    v_lanes = tl.arange(0, V_WORDS)

    q0 = query_part(q_ptrs, k_lanes, q_exists, q_group, 0, K_PACK, HEAD_DIM, K_GROUPED, GROUP)
    q1 = q0
    q2 = q0
    q3 = q0
    # Scores are kept as products of queries and keys; this takes them to powers of two.
    factor = tl.full([ROWS], 1.0, tl.float32) * (scale * LOG2_E)  # [M]
    if K_PACK > 1:
        q1 = query_part(q_ptrs, k_lanes, q_exists, q_group, 1, K_PACK, HEAD_DIM, K_GROUPED, GROUP)
        if K_PACK > 2:
            q2 = query_part(
                q_ptrs, k_lanes, q_exists, q_group, 2, K_PACK, HEAD_DIM, K_GROUPED, GROUP
            )
            q3 = query_part(
                q_ptrs, k_lanes, q_exists, q_group, 3, K_PACK, HEAD_DIM, K_GROUPED, GROUP
            )
        # Relative to a power of two near their largest number, queries are exact in float16.
        largest = tl.maximum(tl.max(tl.abs(q0), axis=0), tl.max(tl.abs(q1), axis=0))
        largest = tl.maximum(largest, tl.max(tl.abs(q2), axis=0))
        largest = tl.maximum(largest, tl.max(tl.abs(q3), axis=0)).to(tl.float32)
        if K_GROUPED:
            largest = tl.max(tl.reshape(largest, ROWS, K_GROUPS), axis=1)  # [M]
        power = (largest.to(tl.int32, bitcast=True) & 0x7F800000).to(tl.float32, bitcast=True)
        power = tl.where(power == 0.0, 1.0, power)
        factor = factor * power
        if K_GROUPED:
            power = tl.reshape(tl.broadcast_to(power[:, None], ROWS, K_GROUPS), K_COLUMNS)
        q0 = (q0.to(tl.float32) / power[None, :]).to(NUMBERS)
        q1 = (q1.to(tl.float32) / power[None, :]).to(NUMBERS)
        q2 = (q2.to(tl.float32) / power[None, :]).to(NUMBERS)
        q3 = (q3.to(tl.float32) / power[None, :]).to(NUMBERS)

    reference = tl.full([ROWS], float("-inf"), tl.float32)  # largest score so far, by `factor`
    # Weights times scales are kept by a power of two, a whole one, so that no bit is lost to it.
    power_of_sums = tl.full([V_COLUMNS], float("-inf"), tl.float32)
    v_factor = factor
    if V_GROUPED:
        v_factor = tl.reshape(tl.broadcast_to(factor[:, None], ROWS, V_GROUPS), V_COLUMNS)
    total = tl.zeros([ROWS], tl.float32)
    acc0 = tl.zeros([V_WORDS, V_COLUMNS], tl.float32)
    acc1 = acc0
    acc2 = acc0
    acc3 = acc0
    k_words = k_lanes < (HEAD_DIM // K_PACK)
    v_words = v_lanes < (HEAD_DIM // V_PACK)

    for tile in range(first_tile, last_tile):
        n = tile * BLOCK_N + tl.arange(0, BLOCK_N)  # [N]
        exists = n < length
        if PAGE:
            page = tl.load(pages_ptr + batch * pages_row + n // PAGE, mask=exists, other=0)
            outer = page.to(tl.int64)  # [N]
            inner = n % PAGE
        else:
            outer = batch
            inner = n
        if K_SCALED:
            offsets = outer * ks_block + head * ks_head + inner * ks_row
            k_bits = load_scales(k_scale_ptr, offsets, exists, K_GROUPED, GROUPS)
        if V_SCALED:
            offsets = outer * vs_block + head * vs_head + inner * vs_row
            v_bits = load_scales(v_scale_ptr, offsets, exists, V_GROUPED, GROUPS)
        k_rows = outer * k_block + head * k_head + inner * k_row  # [N]
        v_rows = outer * v_block + head * v_head + inner * v_row
        k = tl.load(
            k_ptr + k_rows[:, None] + k_lanes[None, :],
            mask=exists[:, None] & k_words[None, :],
            other=0,
        )  # [N, W]
        v = tl.load(
            v_ptr + v_rows[None, :] + v_lanes[:, None],
            mask=exists[None, :] & v_words[:, None],
            other=0,
        )  # [W, N]
        scores = products(k, q0, q1, q2, q3, K_FORMAT, PLAIN, NUMBERS, EXACT)  # [N, M Z]
        if K_SCALED:
            k_scales = (k_bits.to(tl.int32) << 16).to(tl.float32, bitcast=True)
            scores *= by_column(k_scales, K_GROUPED, GROUPS, BLOCK_N, K_COLUMNS)
            if K_GROUPED:
                scores = sum_groups(scores, GROUPS, BLOCK_N, K_COLUMNS)
        scores = tl.where(n[:, None] < seen[None, :], scores, float("-inf"))  # [N, M]

        before = reference
        reference = tl.maximum(reference, tl.max(scores, axis=0) * factor)
        finite = tl.where(reference == float("-inf"), 0.0, reference)
        weights = tl.exp2(scores * factor[None, :] - finite[None, :])  # [N, M]
        alpha = tl.exp2(before - finite)
        total = total * alpha + tl.sum(weights, axis=0)
        if V_SCALED:
            exponent, mantissa = split_exponent(v_bits)  # [N], or [N, Z]
            exponent = by_column(exponent, V_GROUPED, GROUPS, BLOCK_N, V_COLUMNS)
            if V_GROUPED:
                scores = for_groups(scores, GROUPS, BLOCK_N, V_COLUMNS)
            before_power = power_of_sums
            sums = scores * v_factor[None, :] + exponent
            power_of_sums = tl.maximum(before_power, tl.floor(tl.max(sums, axis=0)))
            whole_power = tl.where(power_of_sums == float("-inf"), 0.0, power_of_sums)
            weights = tl.exp2(scores * v_factor[None, :] + (exponent - whole_power[None, :]))
            weights *= by_column(mantissa, V_GROUPED, GROUPS, BLOCK_N, V_COLUMNS)  # below 4
            alpha = tl.exp2(before_power - whole_power)
        # Many sums are taken on only where a maximum has moved, which becomes rare.
        if not V_GROUPED or tl.min(alpha, axis=0) < 1.0:
            acc0 *= alpha[None, :]
            acc1 *= alpha[None, :]
            acc2 *= alpha[None, :]
            acc3 *= alpha[None, :]
        acc0, acc1, acc2, acc3 = add_values(
            acc0, acc1, acc2, acc3, v, weights, V_FORMAT, PLAIN, NUMBERS, EXACT
        )

    sees = total != 0.0  # [M], NaN too, which must not be hidden
    by_total = tl.where(sees, 1.0 / total, 0.0)
    # The weights' power less that of the total, apart in whole powers and what is left.
    nearest = tl.floor(reference)
    if V_SCALED:
        by_total = tl.where(sees, by_total * tl.exp2(nearest - reference), 0.0)
    if V_GROUPED:
        by_total = tl.reshape(tl.broadcast_to(by_total[:, None], ROWS, V_GROUPS), V_COLUMNS)
        nearest = tl.reshape(tl.broadcast_to(nearest[:, None], ROWS, V_GROUPS), V_COLUMNS)
    power = tl.full([V_COLUMNS], 1.0, tl.float32)
    if V_SCALED:
        power = tl.where(by_total != 0.0, tl.exp2(power_of_sums - nearest), 0.0)
    log_sum = tl.where(sees, reference + tl.log2(total), float("-inf"))

    exists_m = rows < new * HEADS
    out_base = (batch * kv_heads + head) * HEADS * new
    place = slot.to(tl.int64) * tl.num_programs(1) + block
    if SPLIT:
        target_ptr = partial_ptr
        target_rows = (place * splits + split) * ROWS + tl.arange(0, ROWS)  # [M]
        tl.store(partial_lse_ptr + target_rows, log_sum, mask=exists_m)
    else:
        target_ptr = out_ptr
        target_rows = out_base + (rows % HEADS) * new + rows // HEADS
        tl.store(lse_ptr + target_rows, log_sum * LN_2, mask=exists_m)
    for part in tl.static_range(V_PACK):
        acc = acc0
        if part == 1:
            acc = acc1
        if part == 2:
            acc = acc2
        if part == 3:
            acc = acc3
        out = acc * by_total[None, :] * power[None, :]
        if V_GROUPED:  # of each column the numbers of its group
            own = (v_lanes * V_PACK + part)[:, None] // GROUP
            own = own == (tl.arange(0, V_COLUMNS) % V_GROUPS)[None, :]
            out = sum_groups(tl.where(own, out, 0.0), GROUPS, V_WORDS, V_COLUMNS)  # [W, M]
        tl.store(
            target_ptr + target_rows[None, :] * HEAD_DIM + (v_lanes * V_PACK + part)[:, None],
            out.to(target_ptr.dtype.element_ty),
            mask=v_words[:, None] & exists_m[None, :],
        )
    if SPLIT:
        merge_parts(
            partial_ptr, partial_lse_ptr, arrivals_ptr, out_ptr, lse_ptr, place, splits,
            block * ROWS, tl.minimum(ROWS, new * HEADS - block * ROWS), out_base, new,
            HEADS, ROWS, HEAD_DIM, COLUMNS, AT_ONCE,
        )  # fmt: skip
