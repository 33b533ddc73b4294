"""Addresses of tiles: the batch entry, head and rows of a program, and pointers to its elements.

A batch entry and a head are called a pair. Rows may be packed sequences, whose borders only the
device knows. Offsets are 64-bit, so that a tensor may have more than 2**31 elements.

B batch, H query heads, G kv heads, M queries, N keys, D head dimension. A tile has ROWS rows
(BLOCK_M queries or BLOCK_N keys) and DIMS = BLOCK_D columns: D padded to a power of two.
"""

# Triton infers the types of a kernel's arguments.
# ruff: noqa: ANN001, ANN201

import triton
import triton.language as tl

# exp2 is one instruction, so scores are kept in base 2: 2^(x log2 e) = e^x.
LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def program_tile(tiles, pairs, section):
    """Tile and pair of this program: section by section of pairs, and in a section tile by tile.

    What a section's pairs read again and again stays in the L2 cache, and the tiles with most work
    are begun first, whichever pair they belong to.
    """
    program = tl.program_id(0)
    which = program // (section * tiles)
    rest = program - which * (section * tiles)
    width = tl.minimum(section, pairs - which * section)  # the last section may be narrower
    return rest // width, which * section + rest % width


@triton.jit
def packed_sequence(tile, cu_ptr, sequences, search_steps, BLOCK: tl.constexpr):
    """The packed sequence that a tile belongs to, and the tile's number within that sequence.

    Sequence s owns the tiles from cu[s] // BLOCK + s on: room for all its rows wherever it begins,
    computed without a table of tiles. Some tiles stay without rows. A binary search finds s.
    """
    low = tile * 0
    high = low + sequences
    for _ in range(search_steps):
        middle = (low + high) // 2
        owned = tl.load(cu_ptr + middle).to(tl.int32) // BLOCK + middle <= tile
        low = tl.where(owned, middle, low)
        high = tl.where(owned, high, middle)
    return low, tile - (tl.load(cu_ptr + low).to(tl.int32) // BLOCK + low)


@triton.jit
def sequence_bounds(sequence, cu_ptr):
    """First row and number of rows of a packed sequence."""
    first = tl.load(cu_ptr + sequence).to(tl.int32)
    return first, tl.load(cu_ptr + sequence + 1).to(tl.int32) - first


@triton.jit
def tile_ptrs(
    ptr, batch, head, row, batch_stride, head_stride, row_stride, dim_stride,
    ROWS: tl.constexpr, DIMS: tl.constexpr,
):  # fmt: skip
    """Pointers [ROWS, DIMS] to the tile from `row` on, of a tensor [B, heads, rows, D]."""
    start = tl.cast(batch, tl.int64) * batch_stride + tl.cast(head, tl.int64) * head_stride
    first = ptr + (start + tl.cast(row, tl.int64) * row_stride)
    rows = tl.arange(0, ROWS).to(tl.int64)  # [ROWS]
    dims = tl.arange(0, DIMS).to(tl.int64)  # [DIMS]
    return first + (rows[:, None] * row_stride + dims[None, :] * dim_stride)


@triton.jit
def in_bounds(rows, row_end, HEAD_DIM: tl.constexpr, DIMS: tl.constexpr):
    """True where an element exists: rows [ROWS] before `row_end`, dims before HEAD_DIM.

    [ROWS, DIMS], or [ROWS, 1] where no dim is padding.
    """
    exists = (rows < row_end)[:, None]
    if HEAD_DIM != DIMS:
        exists = exists & (tl.arange(0, DIMS) < HEAD_DIM)[None, :]
    return exists


@triton.jit
def load_tile(
    ptrs, rows, row_end, HEAD_DIM: tl.constexpr, DIMS: tl.constexpr, ALL_ROWS: tl.constexpr
):
    """The tile [ROWS, DIMS] at `ptrs`, zeros out of bounds; ALL_ROWS promises that rows exist."""
    if not ALL_ROWS:
        tile = tl.load(ptrs, mask=in_bounds(rows, row_end, HEAD_DIM, DIMS), other=0.0)
    elif HEAD_DIM != DIMS:
        tile = tl.load(ptrs, mask=(tl.arange(0, DIMS) < HEAD_DIM)[None, :], other=0.0)
    else:
        tile = tl.load(ptrs)
    return tile
