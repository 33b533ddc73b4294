"""The kernel before the backward ones: delta, what every weight's gradient of a row is shifted by.

delta is the sum of O * dO over a row (FlashAttention-2, algorithm 2; Dao 2023, arXiv:2307.08691),
less the gradient of the row's normaliser where there is one: d lse / d score is the weight itself.

O and dO [B, H, M, D]; lse, its gradient and delta [B, H, M]. A program has one tile of BLOCK_M rows
of one pair of batch entry and head.
"""

# Triton infers the types of a kernel's arguments.
# ruff: noqa: ANN001, ANN201

import triton
import triton.language as tl

from assay.attention.sequence.flash2_triton.tiles import load_tile, tile_ptrs


@triton.jit(do_not_specialize=["M", "heads", "tiles"])
def delta_kernel(
    out_ptr, dout_ptr, lse_ptr, grad_lse_ptr, delta_ptr,
    out_batch, out_head, out_row, out_dim, dout_batch, dout_head, dout_row, dout_dim,
    M, heads, tiles,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """delta of one tile of rows of one head."""
    pair = tl.program_id(0) // tiles
    first_row = tl.program_id(0) % tiles * BLOCK_M
    rows = first_row + tl.arange(0, BLOCK_M)  # [BLOCK_M]
    batch = pair // heads
    head = pair % heads
    out_ptrs = tile_ptrs(
        out_ptr, batch, head, first_row, out_batch, out_head, out_row, out_dim, BLOCK_M, BLOCK_D
    )
    dout_ptrs = tile_ptrs(
        dout_ptr, batch, head, first_row, dout_batch, dout_head, dout_row, dout_dim,
        BLOCK_M, BLOCK_D,
    )  # fmt: skip
    out = load_tile(out_ptrs, rows, M, HEAD_DIM, BLOCK_D, False).to(tl.float32)
    dout = load_tile(dout_ptrs, rows, M, HEAD_DIM, BLOCK_D, False).to(tl.float32)
    delta = tl.reduce(out * dout, 1, tl.standard._sum_combine)  # [BLOCK_M]
    offsets = tl.cast(pair, tl.int64) * M + rows  # into [B * H * M]
    if grad_lse_ptr is not None:
        lse = tl.load(lse_ptr + offsets, mask=rows < M, other=0.0)
        grad_lse = tl.load(grad_lse_ptr + offsets, mask=rows < M, other=0.0)
        # A row that sees no key has a constant lse of -inf: nothing flows back through it.
        delta -= tl.where(lse == float("-inf"), 0.0, grad_lse)
    tl.store(delta_ptr + offsets, delta, mask=rows < M)
