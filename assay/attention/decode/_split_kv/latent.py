"""The kernel of absorbed latent attention: one row of a token serves as key and value of all heads.

Queries come multiplied with the map from latents to keys (and of codes, where a splice keeps
those), so scores are their products with the rows themselves; the output is an average of rows,
which the map to values takes on. A row is read once: for scores whole, and its first WIDTH numbers
for the output; rotated dimensions lie behind them. Programs share the keys as in kernel.py.

Legend: M rows (new tokens x query heads), N tokens of a tile, R width of a latent, r of what is
rotated.
"""

# Triton infers the types of a kernel's arguments.
# ruff: noqa: ANN001

import triton
import triton.language as tl

from assay.attention.decode._split_kv.parts import LN_2, LOG2_E, merge_parts, share_of_tiles


@triton.jit(do_not_specialize=["keys", "new", "splits", "pages_row"])
def latent_kernel(
    q_ptr, row_ptr, out_ptr, lse_ptr, partial_ptr, partial_lse_ptr, arrivals_ptr,
    lengths_ptr, pages_ptr, scale, keys, new, splits, pages_row,
    q_batch, q_head, q_row, row_block, row_row,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, ROPE: tl.constexpr, PAGE: tl.constexpr,
    SPLIT: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_R: tl.constexpr,
    BLOCK_ROPE: tl.constexpr, COLUMNS: tl.constexpr, AT_ONCE: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """q [B, HEADS, new, WIDTH + ROPE], out [B, HEADS, new, WIDTH] contiguous, lse [B, HEADS, new].

    Rows [B, keys, WIDTH + ROPE], or pages [pages, PAGE, WIDTH + ROPE] by tables [B, pages_row].
    """
    split = tl.program_id(0) % splits
    batch = (tl.program_id(0) // splits).to(tl.int64)
    block = tl.program_id(1)  # of rows
    length, first_tile, last_tile = share_of_tiles(keys, lengths_ptr, batch, split, splits, BLOCK_N)
    lanes = tl.arange(0, BLOCK_M)
    rows = block * BLOCK_M + lanes  # [M]
    exists_m = rows < new * HEADS
    token = rows // HEADS
    seen = length - new + token + 1  # [M]
    dims = tl.arange(0, BLOCK_R)  # [R]
    rope_dims = tl.arange(0, BLOCK_ROPE)  # [r]
    q_rows = q_ptr + batch * q_batch + (rows % HEADS).to(tl.int64) * q_head + token * q_row
    q = tl.load(
        q_rows[:, None] + dims[None, :], mask=exists_m[:, None] & (dims < WIDTH)[None, :], other=0.0
    )  # [M, R]
    q_rope = q
    if ROPE:
        q_rope = tl.load(
            q_rows[:, None] + WIDTH + rope_dims[None, :],
            mask=exists_m[:, None] & (rope_dims < ROPE)[None, :],
            other=0.0,
        )  # [M, r]

    maximum = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_R], tl.float32)
    for tile in range(first_tile, last_tile):
        n = tile * BLOCK_N + tl.arange(0, BLOCK_N)  # [N]
        exists = n < length
        if PAGE:
            page = tl.load(pages_ptr + batch * pages_row + n // PAGE, mask=exists, other=0)
            starts = page.to(tl.int64) * row_block + (n % PAGE) * row_row  # [N]
        else:
            starts = batch * row_block + n.to(tl.int64) * row_row
        latent = tl.load(
            row_ptr + starts[:, None] + dims[None, :],
            mask=exists[:, None] & (dims < WIDTH)[None, :],
            other=0.0,
        )  # [N, R]
        scores = tl.dot(q, tl.trans(latent), input_precision=EXACT)
        if ROPE:
            turned = tl.load(
                row_ptr + starts[:, None] + WIDTH + rope_dims[None, :],
                mask=exists[:, None] & (rope_dims < ROPE)[None, :],
                other=0.0,
            )  # [N, r]
            scores = tl.dot(q_rope, tl.trans(turned), scores, input_precision=EXACT)
        scores = tl.where(n[None, :] < seen[:, None], scores * (scale * LOG2_E), float("-inf"))
        before = maximum
        maximum = tl.maximum(maximum, tl.max(scores, axis=1))
        finite = tl.where(maximum == float("-inf"), 0.0, maximum)
        weights = tl.exp2(scores - finite[:, None])  # [M, N]
        alpha = tl.exp2(before - finite)
        total = total * alpha + tl.sum(weights, axis=1)
        acc = tl.dot(weights.to(latent.dtype), latent, acc * alpha[:, None], input_precision=EXACT)

    sees = total != 0.0  # NaN too, which must not be hidden
    out = acc * tl.where(sees, 1.0 / total, 0.0)[:, None]
    log_sum = tl.where(sees, maximum + tl.log2(total), float("-inf"))
    stores = exists_m[:, None] & (dims < WIDTH)[None, :]
    if SPLIT:
        place = (batch * tl.num_programs(1) + block).to(tl.int64)
        rows_of_part = (place * splits + split) * BLOCK_M + lanes
        tl.store(partial_ptr + rows_of_part[:, None] * WIDTH + dims[None, :], out, mask=stores)
        tl.store(partial_lse_ptr + rows_of_part, log_sum, mask=exists_m)
        merge_parts(
            partial_ptr, partial_lse_ptr, arrivals_ptr, out_ptr, lse_ptr, place, splits,
            block * BLOCK_M, tl.minimum(BLOCK_M, new * HEADS - block * BLOCK_M),
            batch * HEADS * new, new, HEADS, BLOCK_M, WIDTH, COLUMNS, AT_ONCE,
        )  # fmt: skip
    else:
        out_rows = (batch * HEADS + rows % HEADS) * new + token
        tl.store(
            out_ptr + out_rows[:, None] * WIDTH + dims[None, :],
            out.to(out_ptr.dtype.element_ty),
            mask=stores,
        )
        tl.store(lse_ptr + out_rows, log_sum * LN_2, mask=exists_m)
