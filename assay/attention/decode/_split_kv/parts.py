"""Parts of the keys: the tiles that a program takes, and the merge of what all of them leave.

Legend: M rows of a program (queries), C columns of an output.
"""

# Triton infers the types of a kernel's arguments.
# ruff: noqa: ANN001

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def share_of_tiles(keys, lengths_ptr, batch, split, splits, BLOCK_N: tl.constexpr):
    """Length of a sequence, and the first and last tile of its keys that a part has."""
    length = keys
    if lengths_ptr is not None:
        # A length beyond what there is room for would be read from a neighbour's memory.
        length = tl.minimum(tl.load(lengths_ptr + batch).to(tl.int32), keys)
    tiles = tl.cdiv(length, BLOCK_N)
    return length, (tiles * split) // splits, (tiles * (split + 1)) // splits


@triton.jit
def merge_parts(
    partial_ptr, partial_lse_ptr, arrivals_ptr, out_ptr, lse_ptr, place, splits,
    first_row, count, out_base, new,
    HEADS: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr,
    AT_ONCE: tl.constexpr,
):  # fmt: skip
    """Merge the parts of `count` rows, once the last of them is written; every program calls it.

    `partial` [places, splits, ROWS, WIDTH]; row i of the block is query head (first_row + i) %
    HEADS and new token (first_row + i) // HEADS, of the output from row `out_base` on. COLUMNS
    numbers of every row of AT_ONCE parts are loaded before the first of them is waited for.
    """
    tl.debug_barrier()  # the whole program has written its part
    arrived = tl.atomic_add(arrivals_ptr + place, 1, sem="acq_rel")
    if arrived == splits - 1:
        tl.store(arrivals_ptr + place, 0)
        lanes = tl.arange(0, ROWS)
        exists = lanes < count  # [M]
        at = place * splits * ROWS + lanes  # [M], in the first part
        query = first_row + lanes
        out_rows = out_base + (query % HEADS) * new + query // HEADS
        for first in tl.static_range(0, WIDTH, COLUMNS):
            columns = first + tl.arange(0, COLUMNS)  # [C]
            inside = exists[:, None] & (columns < WIDTH)[None, :]
            largest = tl.full([ROWS], float("-inf"), tl.float32)
            whole = tl.zeros([ROWS], tl.float32)
            merged = tl.zeros([ROWS, COLUMNS], tl.float32)
            for part in tl.range(0, splits, loop_unroll_factor=AT_ONCE):
                here = at + part * ROWS
                log = tl.load(partial_lse_ptr + here, mask=exists, other=float("-inf"))
                out = tl.load(
                    partial_ptr + here[:, None] * WIDTH + columns[None, :], mask=inside, other=0.0
                )  # [M, C]
                before = largest
                largest = tl.maximum(largest, log)
                finite = tl.where(largest == float("-inf"), 0.0, largest)
                alpha = tl.exp2(before - finite)
                share = tl.exp2(log - finite)
                whole = whole * alpha + share
                merged = merged * alpha[:, None] + out * share[:, None]
            by_whole = tl.where(whole != 0.0, 1.0 / whole, 0.0)
            tl.store(
                out_ptr + out_rows[:, None] * WIDTH + columns[None, :],
                (merged * by_whole[:, None]).to(out_ptr.dtype.element_ty),
                mask=inside,
            )
            if first == 0:
                tl.store(lse_ptr + out_rows, (largest + tl.log2(whole)) * LN_2, mask=exists)
