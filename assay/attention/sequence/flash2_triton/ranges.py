"""Ranges of tiles that a program visits on the other side, and which of them need no mask.

Positions are those of keys: query row i of a sequence stands at p = i + shift with shift = keys -
queries, which aligns causality bottom-right. A tile that every row of the program sees needs no
mask, one that no row sees is never loaded, and the diagonal and the window's edges cross the rest.
A range is therefore four borders, multiples of the tile but for the last:

    begin .. inner   partly visible (a window's far edge)      masked loop
    inner .. outer   wholly visible                            loop without a mask
    outer .. end     partly visible (diagonal, end of keys)    masked loop

For a program that owns keys the diagonal is at the begin and the window's edge at the end.
"""

# Triton infers the types of a kernel's arguments.
# ruff: noqa: ANN001, ANN201

import triton
import triton.language as tl


@triton.jit
def key_range(first_row, row_end, shift, keys, window, CAUSAL: tl.constexpr, BLOCK: tl.constexpr):
    """The range of keys for the query rows first_row .. row_end - 1."""
    first = first_row + shift
    last = row_end - 1 + shift
    begin = first * 0
    inner = begin
    outer = begin + keys
    end = outer
    if CAUSAL:
        outer = tl.minimum(keys, first + 1)  # the first row sees all keys before here
        end = tl.minimum(keys, last + 1)  # the last row sees no key from here on
    if window is not None:
        begin = tl.maximum(first - window + 1, 0)
        inner = tl.maximum(last - window + 1, 0)
        if not CAUSAL:
            outer = tl.minimum(keys, first + window)
            end = tl.minimum(keys, last + window)
    return _in_tiles(begin, inner, outer, end, first_row < row_end, BLOCK)


@triton.jit
def query_range(
    first_key, key_end, shift, queries, window, CAUSAL: tl.constexpr, BLOCK: tl.constexpr
):
    """The range of query rows for the keys first_key .. key_end - 1."""
    first = first_key - shift
    last = key_end - 1 - shift
    begin = first * 0
    inner = begin
    outer = begin + queries
    end = outer
    if CAUSAL:
        begin = tl.maximum(first, 0)  # earlier rows stand before the first key
        inner = tl.maximum(last, 0)  # from here on rows see the last key too
    if window is not None:
        outer = tl.minimum(queries, first + window)
        end = tl.minimum(queries, last + window)
        if not CAUSAL:
            begin = tl.maximum(first - window + 1, 0)
            inner = tl.maximum(last - window + 1, 0)
    return _in_tiles(begin, inner, outer, end, first_key < key_end, BLOCK)


@triton.jit
def _in_tiles(begin, inner, outer, end, any_rows, BLOCK: tl.constexpr):
    """The four borders, the first three rounded to whole tiles and none before its neighbour."""
    end = tl.where(any_rows, tl.maximum(end, 0), 0)
    begin = begin // BLOCK * BLOCK
    inner = (inner + BLOCK - 1) // BLOCK * BLOCK
    outer = tl.maximum(tl.minimum(outer, end), 0) // BLOCK * BLOCK
    return begin, inner, tl.maximum(outer, inner), end


@triton.jit
def visibility_mask(positions, key_index, keys, window, CAUSAL: tl.constexpr):
    """True where the queries at `positions` see the keys `key_index`; the shapes broadcast."""
    visible = key_index < keys
    if CAUSAL:
        visible = visible & (key_index <= positions)
    if window is not None:
        visible = visible & (key_index > positions - window)
        if not CAUSAL:
            visible = visible & (key_index < positions + window)
    return visible
