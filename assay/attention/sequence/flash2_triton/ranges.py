"""Which tiles of the other side a program must visit, and which of them need no mask.

Positions are those of keys: query row i of a sequence stands at p = i + shift with shift = keys -
queries, which aligns causality bottom-right. Some tiles are seen by every row, so that their loop
needs no mask, and some by a few; the rest is never loaded. A range is therefore four borders:
partly seen [begin, inner), wholly seen [inner, outer), partly seen [outer, end).
"""

# Triton infers the types of a kernel's arguments.
# ruff: noqa: ANN001, ANN201

import triton
import triton.language as tl


@triton.jit
def keys_seen(first_row, row_end, shift, keys, window, CAUSAL: tl.constexpr, BLOCK: tl.constexpr):
    """The range of keys for the query rows first_row .. row_end - 1."""
    first = first_row + shift
    last = row_end - 1 + shift
    begin = first * 0
    inner = begin
    outer = begin + keys
    end = outer
    if CAUSAL:
        outer = tl.minimum(keys, first + 1)
        end = tl.minimum(keys, last + 1)
    if window is not None:
        begin = tl.maximum(first - window + 1, 0)
        inner = tl.maximum(last - window + 1, 0)
        if not CAUSAL:
            outer = tl.minimum(keys, first + window)
            end = tl.minimum(keys, last + window)
    return in_tiles(begin, inner, outer, end, first_row < row_end, BLOCK)


@triton.jit
def queries_seeing(
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
        begin = tl.maximum(first, 0)
        inner = tl.maximum(last, 0)
    if window is not None:
        outer = tl.minimum(queries, first + window)
        end = tl.minimum(queries, last + window)
        if not CAUSAL:
            begin = tl.maximum(first - window + 1, 0)
            inner = tl.maximum(last - window + 1, 0)
    return in_tiles(begin, inner, outer, end, first_key < key_end, BLOCK)


@triton.jit
def in_tiles(begin, inner, outer, end, any_rows, BLOCK: tl.constexpr):
    """The four borders, the first three rounded to whole tiles and none before its neighbour."""
    end = tl.where(any_rows, tl.maximum(end, 0), 0)
    begin = begin // BLOCK * BLOCK
    inner = (inner + BLOCK - 1) // BLOCK * BLOCK
    outer = tl.maximum(tl.minimum(outer, end), 0) // BLOCK * BLOCK
    return begin, inner, tl.maximum(outer, inner), end


@triton.jit
def visible(positions, keys_at, keys, window, CAUSAL: tl.constexpr):
    """Which of the keys at `keys_at` the queries at `positions` see; the shapes broadcast."""
    seen = keys_at < keys
    if CAUSAL:
        seen = seen & (keys_at <= positions)
    if window is not None:
        seen = seen & (keys_at > positions - window)
        if not CAUSAL:
            seen = seen & (keys_at < positions + window)
    return seen
