"""Tiles of the three kernels: their sizes, the blocks a program is given, and what is visible.

Tiles are powers of two and at least 16 wide, as Triton's matrix products ask; arrays are padded
up to whole tiles before a kernel sees them, so no kernel reads or writes past an end.
B batch, H query heads, G kv heads, M queries, N keys, D head dimension; a tile has m queries and
n keys.
"""

from dataclasses import dataclass, replace
from functools import reduce
from operator import and_

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

LARGEST_HEAD_DIM = 256
LARGEST_MASK = 2**31 - 1  # Pallas addresses one-byte arrays up to 4 GiB with signed 32 bits
_SMALLEST = 16


@dataclass(frozen=True, kw_only=True)
class Tile:
    """Queries and keys that one step works on, and how Triton is to run it."""

    queries: int  # m
    keys: int  # n
    warps: int
    stages: int


@dataclass(frozen=True, kw_only=True)
class StaticCall:
    """Everything about a call that is known before its values; static for the compiler."""

    queries: int  # M, without padding
    keys: int  # N, without padding
    group: int  # query heads that read one kv head
    causal: bool
    scale: float
    window: int | None
    forward: Tile
    backward: Tile

    @property
    def shift(self) -> int:
        """From a query's row to its position among the keys: bottom-right alignment."""
        return self.keys - self.queries


# By head dimension: the largest tiles that compile for sm_90 without spilling (float32, which has
# no tensor cores and unrolls its products, spills a little in dq from 128 on).
_HALF_FORWARD = {
    64: Tile(queries=128, keys=128, warps=8, stages=2),
    128: Tile(queries=128, keys=64, warps=8, stages=2),
    256: Tile(queries=64, keys=32, warps=8, stages=2),
}
_HALF_BACKWARD = {
    64: Tile(queries=64, keys=128, warps=8, stages=2),
    128: Tile(queries=64, keys=64, warps=8, stages=2),
    256: Tile(queries=64, keys=32, warps=8, stages=1),
}
_FLOAT32_FORWARD = {
    64: Tile(queries=32, keys=32, warps=8, stages=1),
    128: Tile(queries=32, keys=32, warps=8, stages=1),
    256: Tile(queries=32, keys=16, warps=8, stages=1),
}
_FLOAT32_BACKWARD = {
    64: Tile(queries=32, keys=32, warps=8, stages=1),
    128: Tile(queries=16, keys=32, warps=8, stages=1),
    256: Tile(queries=16, keys=16, warps=8, stages=1),
}


def tile(queries: int, keys: int, head_dim: int, dtype: jnp.dtype, *, backward: bool) -> Tile:
    """The tile for a workload; never much larger than the workload itself."""
    if dtype == jnp.float32:
        table = _FLOAT32_BACKWARD if backward else _FLOAT32_FORWARD
    else:
        table = _HALF_BACKWARD if backward else _HALF_FORWARD
    best = table[max(64, power_of_two(head_dim))]
    return replace(
        best,
        queries=min(best.queries, power_of_two(queries)),
        keys=min(best.keys, power_of_two(keys)),
    )


def power_of_two(size: int) -> int:
    """The smallest power of two that holds `size` and that a matrix product takes."""
    return max(_SMALLEST, 1 << (size - 1).bit_length())


def padded(array: jax.Array | None, rows: int, columns: int | None = None) -> jax.Array | None:
    """Pad the last two axes (only the last, without `columns`) to multiples with zeros."""
    if array is None:
        return None
    sizes = (rows,) if columns is None else (rows, columns)
    extra = [(0, 0)] * (array.ndim - len(sizes))
    ends = zip(array.shape[-len(sizes) :], sizes, strict=True)
    extra += [(0, -length % size) for length, size in ends]
    return jnp.pad(array, extra) if any(after for _, after in extra) else array


def query_program_blocks(
    call: StaticCall, tile: Tile, q: jax.Array, k: jax.Array, mask: jax.Array | None
) -> tuple[pl.BlockSpec, pl.BlockSpec, pl.BlockSpec, pl.BlockSpec | None]:
    """Blocks of a program (tile of queries, head, batch): its rows of [B, H, M, D], its rows of
    [B, H, M], all keys of its kv head, and its rows of the mask."""
    dim = q.shape[3]
    rows = pl.BlockSpec((None, None, tile.queries, dim), lambda m, h, b: (b, h, m, 0))  # [m, D]
    row_statistic = pl.BlockSpec((None, None, tile.queries), lambda m, h, b: (b, h, m))  # [m]
    all_keys = pl.BlockSpec(
        (None, None, k.shape[2], dim), lambda m, h, b: (b, h // call.group, 0, 0)
    )  # [N, D]
    if mask is None:
        return rows, row_statistic, all_keys, None
    by_batch, by_head = mask.shape[0] > 1, mask.shape[1] > 1
    mask_rows = pl.BlockSpec(
        (None, None, tile.queries, mask.shape[3]),
        lambda m, h, b: (b if by_batch else 0, h if by_head else 0, m, 0),
    )  # [m, N]
    return rows, row_statistic, all_keys, mask_rows


def length_block(lengths: jax.Array | None) -> pl.BlockSpec | None:
    """Block of any program: the length of its batch entry, [1]."""
    return None if lengths is None else pl.BlockSpec((1,), lambda i, h, b: (b,))


def key_tiles(
    call: StaticCall, tile: Tile, first: jax.Array, length: jax.Array | None
) -> tuple[jax.Array | int, jax.Array | int]:
    """The range of key tiles that queries from row `first` on may see."""
    position = first + call.shift
    last = position + tile.queries - 1
    low, high = 0, call.keys
    if call.causal:
        high = jnp.minimum(high, last + 1)
    if call.window is not None:
        low, high = position - call.window + 1, jnp.minimum(high, last + call.window)
    if length is not None:
        high = jnp.minimum(high, length)
    return _tiles(low, high, tile.keys)


def query_tiles(
    call: StaticCall, tile: Tile, first: jax.Array, length: jax.Array | None
) -> tuple[jax.Array | int, jax.Array | int]:
    """The range of query tiles that may see keys from `first` on."""
    row = first - call.shift
    last = row + tile.keys - 1
    low, high = 0, call.queries
    if call.window is not None:
        low, high = row - call.window + 1, jnp.minimum(high, last + call.window)
    if call.causal:
        low = row
    if length is not None:
        # None where the first key is beyond the length; as numbers, because JAX 0.11's lowering to
        # Triton cannot choose between constants.
        high = jnp.clip(length - first, 0, 1) * high
    return _tiles(low, high, tile.queries)


def _tiles(
    low: jax.Array | int, high: jax.Array | int, size: int
) -> tuple[jax.Array | int, jax.Array | int]:
    """The tiles of `size` that hold low .. high - 1; Python numbers stay such."""
    if not isinstance(low, int):
        low = lax.div(jnp.maximum(low, 0), size)
    if isinstance(high, int):
        return low, -(-high // size)
    return low, lax.div(jnp.maximum(high, 0) + (size - 1), size)


def visibility_mask(
    call: StaticCall,
    rows: jax.Array,
    columns: jax.Array,
    *,
    keys_padded: bool,
    length: jax.Array | None,
    mask: jax.Array | None,
) -> jax.Array | None:
    """True where a pair of a tile may attend; None for all. `rows` and `columns` broadcast to it.

    `keys_padded` says that a tile may reach past the last key.
    """
    position = rows + call.shift
    conditions = [] if mask is None else [mask]
    if call.causal:
        conditions.append(columns <= position)
    if call.window is not None:
        conditions.append(columns > position - call.window)
        if not call.causal:
            conditions.append(columns < position + call.window)
    if length is not None:
        conditions.append(columns < length)
    elif keys_padded:
        conditions.append(columns < call.keys)
    return reduce(and_, conditions) if conditions else None


def product(a: jax.Array, b: jax.Array, contracted: tuple[int, int]) -> jax.Array:
    """A matrix product over one axis of each, accumulated in float32 and without TF32."""
    exact = lax.Precision.HIGHEST if a.dtype == jnp.float32 else lax.Precision.DEFAULT
    return lax.dot_general(
        a,
        b,
        (((contracted[0],), (contracted[1],)), ((), ())),
        precision=exact,
        preferred_element_type=jnp.float32,
    )
