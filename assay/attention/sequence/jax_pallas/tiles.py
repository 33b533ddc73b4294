"""What the three kernels share: tile sizes, which tiles can hold a visible pair, and which pairs.

Tiles are powers of two and at least 16 wide, as Triton's matrix products ask; arrays are padded
up to whole tiles before a kernel sees them, so no kernel reads or writes past an end.
"""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jax import lax

LARGEST_HEAD_DIM = 256
LARGEST_MASK = 2**31 - 1  # Pallas addresses one-byte arrays up to 4 GiB with signed 32 bits
_SMALLEST = 16


@dataclass(frozen=True, kw_only=True)
class Tile:
    """Rows of queries and of keys that one step works on, and how Triton is to run it."""

    queries: int
    keys: int
    warps: int
    stages: int


@dataclass(frozen=True, kw_only=True)
class Plan:
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
    def ahead(self) -> int:
        """How far a query's position lies ahead of its row: bottom-right alignment."""
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
    """The last two axes (or only the last, without `columns`) filled up to multiples with zeros."""
    if array is None:
        return None
    sizes = (rows,) if columns is None else (rows, columns)
    extra = [(0, 0)] * (array.ndim - len(sizes))
    ends = zip(array.shape[-len(sizes) :], sizes, strict=True)
    extra += [(0, -length % size) for length, size in ends]
    return jnp.pad(array, extra) if any(after for _, after in extra) else array


def key_tiles(
    plan: Plan, used: Tile, first: jax.Array, length: jax.Array | None
) -> tuple[jax.Array | int, jax.Array | int]:
    """The range of key tiles that queries from row `first` on may see."""
    position = first + plan.ahead
    last = position + used.queries - 1
    low, high = 0, plan.keys
    if plan.causal:
        high = jnp.minimum(high, last + 1)
    if plan.window is not None:
        low, high = position - plan.window + 1, jnp.minimum(high, last + plan.window)
    if length is not None:
        high = jnp.minimum(high, length)
    return _tiles(low, high, used.keys)


def query_tiles(
    plan: Plan, used: Tile, first: jax.Array, length: jax.Array | None
) -> tuple[jax.Array | int, jax.Array | int]:
    """The range of query tiles that may see keys from `first` on."""
    row = first - plan.ahead
    last = row + used.keys - 1
    low, high = 0, plan.queries
    if plan.window is not None:
        low, high = row - plan.window + 1, jnp.minimum(high, last + plan.window)
    if plan.causal:
        low = row
    if length is not None:
        # None where the first key is beyond the length; as numbers, because JAX 0.11's lowering to
        # Triton cannot choose between constants.
        high = jnp.clip(length - first, 0, 1) * high
    return _tiles(low, high, used.queries)


def _tiles(
    low: jax.Array | int, high: jax.Array | int, size: int
) -> tuple[jax.Array | int, jax.Array | int]:
    if not isinstance(low, int):
        low = lax.div(jnp.maximum(low, 0), size)
    if isinstance(high, int):
        return low, -(-high // size)
    return low, lax.div(jnp.maximum(high, 0) + (size - 1), size)


def visible(
    plan: Plan,
    rows: jax.Array,
    columns: jax.Array,
    *,
    whole: bool,
    length: jax.Array | None,
    mask: jax.Array | None,
) -> jax.Array | None:
    """Which pairs of a tile may attend; None for all. `rows` and `columns` broadcast to the tile.

    `whole` says that no tile reaches past the last key.
    """
    position = rows + plan.ahead
    allowed = [] if mask is None else [mask]
    if plan.causal:
        allowed.append(columns <= position)
    if plan.window is not None:
        allowed.append(columns > position - plan.window)
        if not plan.causal:
            allowed.append(columns < position + plan.window)
    if length is not None:
        allowed.append(columns < length)
    elif not whole:
        allowed.append(columns < plan.keys)
    seen = None
    for condition in allowed:
        seen = condition if seen is None else seen & condition
    return seen


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
