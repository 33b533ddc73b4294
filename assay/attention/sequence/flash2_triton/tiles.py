"""Where a program's tile lies: its batch entry, head and rows, and the addresses of its elements.

A batch entry and a head are called a pair. Rows may be packed sequences, whose borders only the
device knows. Offsets are 64-bit, so that a tensor may have more than 2**31 elements.
"""

# Triton infers the types of a kernel's arguments.
# ruff: noqa: ANN001, ANN201

import triton
import triton.language as tl


@triton.jit
def place_of(program, tiles, pairs, section):
    """Tile and pair of a program: section by section of pairs, and in a section tile by tile.

    What a section's pairs read again and again stays in the L2 cache, and the tiles with most work
    are begun first, whichever pair they belong to.
    """
    which = program // (section * tiles)
    rest = program - which * (section * tiles)
    width = tl.minimum(section, pairs - which * section)
    return rest // width, which * section + rest % width


@triton.jit
def sequence_of(tile, cu_ptr, sequences, search_steps, BLOCK: tl.constexpr):
    """The packed sequence that a tile belongs to, and the tile's number within that sequence.

    Sequence s owns the tiles from cu[s] // BLOCK + s on: room for all its rows wherever it begins,
    found without a table of tiles. Some tiles stay without rows.
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
def bounds_of(sequence, cu_ptr):
    """First row and number of rows of a packed sequence."""
    first = tl.load(cu_ptr + sequence).to(tl.int32)
    return first, tl.load(cu_ptr + sequence + 1).to(tl.int32) - first


@triton.jit
def row_at(pointer, batch, head, row, batch_step, head_step, row_step):
    """The address of a row of [batch, heads, rows, dims]."""
    start = tl.cast(batch, tl.int64) * batch_step + tl.cast(head, tl.int64) * head_step
    return pointer + (start + tl.cast(row, tl.int64) * row_step)


@triton.jit
def offsets(row_step, dim_step, ROWS: tl.constexpr, DIMS: tl.constexpr):
    """From the address of a tile's first element to all of them, [ROWS, DIMS]."""
    rows = tl.arange(0, ROWS).to(tl.int64)
    dims = tl.arange(0, DIMS).to(tl.int64)
    return rows[:, None] * row_step + dims[None, :] * dim_step


@triton.jit
def inside(rows, row_end, HEAD_DIM: tl.constexpr, DIMS: tl.constexpr):
    """Which elements of a tile exist: rows before `row_end`, and no padding of the dims."""
    exists = (rows < row_end)[:, None]
    if HEAD_DIM != DIMS:
        exists = exists & (tl.arange(0, DIMS) < HEAD_DIM)[None, :]
    return exists


@triton.jit
def load_tile(
    at, rows, row_end, HEAD_DIM: tl.constexpr, DIMS: tl.constexpr, ALL_ROWS: tl.constexpr
):
    """The tile at the addresses `at`, zeros where nothing exists; ALL_ROWS says that they do."""
    if not ALL_ROWS:
        tile = tl.load(at, mask=inside(rows, row_end, HEAD_DIM, DIMS), other=0.0)
    elif HEAD_DIM != DIMS:
        tile = tl.load(at, mask=(tl.arange(0, DIMS) < HEAD_DIM)[None, :], other=0.0)
    else:
        tile = tl.load(at)
    return tile
