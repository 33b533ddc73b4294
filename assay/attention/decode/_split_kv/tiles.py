"""Tiles of keys, values, queries and scales, and the products of them, by format.

Legend: N keys of a tile, M columns of queries, W words of a vector, Z groups of a vector.
"""

# Triton infers the types of a kernel's arguments.
# ruff: noqa: ANN001

import triton
import triton.language as tl

from assay.attention.decode._split_kv.unpack import unpack_fours, unpack_pairs


@triton.jit
def query_part(
    ptrs, words, exists_m, group,
    PART: tl.constexpr, PACK: tl.constexpr, HEAD_DIM: tl.constexpr, GROUPED: tl.constexpr,
    GROUP: tl.constexpr,
):  # fmt: skip
    """A part of the queries, [W, M]; of a column only the numbers of its group."""
    dims = words * PACK + PART  # [W]
    exists = (dims < HEAD_DIM)[:, None] & exists_m[None, :]
    if GROUPED:
        exists = exists & ((dims // GROUP)[:, None] == group[None, :])
    return tl.load(ptrs[None, :] + dims[:, None], mask=exists, other=0.0)


@triton.jit
def products(
    tile, q0, q1, q2, q3,
    FORMAT: tl.constexpr, PLAIN: tl.constexpr, NUMBERS: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """Products of keys [N, W] and queries [W, M], [N, M] in float32."""
    if FORMAT == "whole":
        total = tl.dot(tile, q0, input_precision=EXACT)
    elif FORMAT == "int4":
        k0, k1, k2, k3 = unpack_fours(tile, PLAIN, NUMBERS)  # [N, W]
        total = tl.dot(k0, q0, input_precision=EXACT)
        total = tl.dot(k1, q1, total, input_precision=EXACT)
        total = tl.dot(k2, q2, total, input_precision=EXACT)
        total = tl.dot(k3, q3, total, input_precision=EXACT)
    else:
        k0, k1 = unpack_pairs(tile, FORMAT, PLAIN, NUMBERS)  # [N, W]
        total = tl.dot(k0, q0, input_precision=EXACT)
        total = tl.dot(k1, q1, total, input_precision=EXACT)
    return total


@triton.jit
def add_values(
    acc0, acc1, acc2, acc3, tile, weights,
    FORMAT: tl.constexpr, PLAIN: tl.constexpr, NUMBERS: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """Sums [W, M] of values [W, N] by weights [N, M], added to what there is, by part."""
    if FORMAT == "whole":
        acc0 = tl.dot(tile, weights.to(tile.dtype), acc0, input_precision=EXACT)
    elif FORMAT == "int4":
        v0, v1, v2, v3 = unpack_fours(tile, PLAIN, NUMBERS)  # [W, N]
        weights = weights.to(NUMBERS)
        acc0 = tl.dot(v0, weights, acc0, input_precision=EXACT)
        acc1 = tl.dot(v1, weights, acc1, input_precision=EXACT)
        acc2 = tl.dot(v2, weights, acc2, input_precision=EXACT)
        acc3 = tl.dot(v3, weights, acc3, input_precision=EXACT)
    else:
        v0, v1 = unpack_pairs(tile, FORMAT, PLAIN, NUMBERS)  # [W, N]
        weights = weights.to(NUMBERS)
        acc0 = tl.dot(v0, weights, acc0, input_precision=EXACT)
        acc1 = tl.dot(v1, weights, acc1, input_precision=EXACT)
    return acc0, acc1, acc2, acc3


@triton.jit
def load_scales(ptr, offsets, exists, GROUPED: tl.constexpr, GROUPS: tl.constexpr):
    """Scales of a tile's keys, bfloat16 read as int16: [N], or [N, Z]."""
    if GROUPED:
        bits = tl.load(
            ptr + offsets[:, None] + tl.arange(0, GROUPS)[None, :], mask=exists[:, None], other=0
        )
    else:
        bits = tl.load(ptr + offsets, mask=exists, other=0)
    return bits


@triton.jit
def by_column(
    scales, GROUPED: tl.constexpr, GROUPS: tl.constexpr, N: tl.constexpr, M: tl.constexpr
):
    """Scales for every column: [N, 1], or [N, M] where a column is of a group."""
    if GROUPED:
        wide = tl.broadcast_to(scales[:, None, :], N, M // GROUPS, GROUPS)
        columns = tl.reshape(wide, N, M)
    else:
        columns = scales[:, None]
    return columns


@triton.jit
def sum_groups(products, GROUPS: tl.constexpr, N: tl.constexpr, M: tl.constexpr):
    """[N, M] summed over the groups of a query, [N, M / Z]."""
    return tl.sum(tl.reshape(products, N, M // GROUPS, GROUPS), axis=2)


@triton.jit
def for_groups(rows, GROUPS: tl.constexpr, N: tl.constexpr, M: tl.constexpr):
    """[N, M / Z] given to every group of a query, [N, M]."""
    wide = tl.broadcast_to(rows[:, :, None], N, M // GROUPS, GROUPS)
    return tl.reshape(wide, N, M)


@triton.jit
def split_exponent(bits):
    """Exponent and mantissa, from 1 to 2, of positive bfloat16 read as int16; NaN for NaN."""
    wide = bits.to(tl.int32)
    mantissa = (((wide & 0x7F) | 0x3F80) << 16).to(tl.float32, bitcast=True)
    mantissa = tl.where((wide & 0x7F80) == 0x7F80, float("nan"), mantissa)
    return ((wide >> 7) & 0xFF).to(tl.float32) - 127.0, mantissa
