"""The kernel before the backward ones: delta, what every weight's gradient of a row is shifted by.

delta is the sum of O * dO over a row (FlashAttention-2, algorithm 2; Dao 2023, arXiv:2307.08691),
less the gradient of the row's normaliser where there is one: d lse / d score is the weight itself.
"""

# Triton infers the types of a kernel's arguments.
# ruff: noqa: ANN001, ANN201

import triton
import triton.language as tl

from assay.attention.sequence.flash2_triton.tiles import load_tile, offsets, row_at


@triton.jit(do_not_specialize=["M", "heads", "tiles"])
def delta_kernel(
    out_ptr, grad_ptr, lse_ptr, grad_lse_ptr, delta_ptr,
    out_batch, out_head, out_row, out_dim, grad_batch, grad_head, grad_row, grad_dim,
    M, heads, tiles,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """delta of one tile of rows of one head."""
    pair = tl.program_id(0) // tiles
    first_row = tl.program_id(0) % tiles * BLOCK_M
    rows = first_row + tl.arange(0, BLOCK_M)
    out_at = row_at(out_ptr, pair // heads, pair % heads, first_row, out_batch, out_head, out_row)
    out_at += offsets(out_row, out_dim, BLOCK_M, BLOCK_D)
    grad_at = row_at(
        grad_ptr, pair // heads, pair % heads, first_row, grad_batch, grad_head, grad_row
    )
    grad_at += offsets(grad_row, grad_dim, BLOCK_M, BLOCK_D)
    out = load_tile(out_at, rows, M, HEAD_DIM, BLOCK_D, False).to(tl.float32)
    grad = load_tile(grad_at, rows, M, HEAD_DIM, BLOCK_D, False).to(tl.float32)
    sums = tl.reduce(out * grad, 1, tl.standard._sum_combine)
    flat = tl.cast(pair, tl.int64) * M + rows
    if grad_lse_ptr is not None:
        lse = tl.load(lse_ptr + flat, mask=rows < M, other=0.0)
        grad_lse = tl.load(grad_lse_ptr + flat, mask=rows < M, other=0.0)
        sums -= tl.where(lse == float("-inf"), 0.0, grad_lse)
    tl.store(delta_ptr + flat, sums, mask=rows < M)
