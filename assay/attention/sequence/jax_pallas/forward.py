"""The forward kernel: one program per tile of queries visits the keys with a running softmax.

Algorithm 1 of Dao, FlashAttention-2 (https://arxiv.org/abs/2307.08691): the accumulator is
rescaled when a larger score appears and divided by the row's sum once, at the end.
B batch, H query heads, G kv heads, M queries, N keys, D head dimension; a tile has m queries and
n keys.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

from assay.attention.sequence.jax_pallas import tiles
from assay.attention.sequence.jax_pallas.tiles import StaticCall


def run(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    mask: jax.Array | None,
    lengths: jax.Array | None,
    *,
    call: StaticCall,
    interpret: bool,
) -> tuple[jax.Array, jax.Array]:
    """Output [B, H, M, D] and LSE [B, H, M] of arrays that are padded to whole tiles."""
    batch, heads, queries, _ = q.shape
    tile = call.forward
    rows, row_statistic, all_keys, mask_rows = tiles.query_program_blocks(call, tile, q, k, mask)
    return pl.pallas_call(
        partial(_kernel, call=call, keys_padded=k.shape[2] != call.keys),
        grid=(queries // tile.queries, heads, batch),
        in_specs=(rows, all_keys, all_keys, mask_rows, tiles.length_block(lengths)),
        out_specs=(rows, row_statistic),
        out_shape=(
            jax.ShapeDtypeStruct(q.shape, q.dtype),
            jax.ShapeDtypeStruct(q.shape[:3], jnp.float32),
        ),
        compiler_params=plgpu.CompilerParams(num_warps=tile.warps, num_stages=tile.stages),
        interpret=interpret,
        name="assay_flash_forward",
    )(q, k, v, mask, lengths)


def _kernel(
    q_ref: Any,  # [m, D]
    k_ref: Any,  # [N, D]
    v_ref: Any,  # [N, D]
    mask_ref: Any,  # [m, N]
    lengths_ref: Any,  # [1]
    out_ref: Any,  # [m, D]
    lse_ref: Any,  # [m]
    *,
    call: StaticCall,
    keys_padded: bool,
) -> None:
    tile = call.forward
    first = pl.program_id(0) * tile.queries
    rows = first + lax.broadcasted_iota(jnp.int32, (tile.queries, tile.keys), 0)  # [m, n]
    columns = lax.broadcasted_iota(jnp.int32, (tile.queries, tile.keys), 1)  # [m, n]
    length = None if lengths_ref is None else lengths_ref[0]
    q = q_ref[...]

    def step(index: jax.Array, state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        accumulated, row_max, row_sum = state  # [m, D], [m], [m]
        keys = pl.ds(index * tile.keys, tile.keys)
        scores = tiles.product(q, k_ref[keys, :], (1, 1)) * call.scale  # [m, n]
        mask = None if mask_ref is None else mask_ref[:, keys]
        key_index = index * tile.keys + columns
        visible = tiles.visibility_mask(
            call, rows, key_index, keys_padded=keys_padded, length=length, mask=mask
        )
        if visible is not None:
            scores = jnp.where(visible, scores, -jnp.inf)
        new_max = jnp.maximum(row_max, scores.max(axis=1))
        # A row that has seen nothing yet has no maximum; zero keeps inf - inf away.
        subtracted = jnp.where(new_max == -jnp.inf, 0.0, new_max)
        # Online softmax: what was summed under the old maximum is rescaled to the new one.
        rescale = jnp.exp(row_max - subtracted)  # [m]
        weights = jnp.exp(scores - subtracted[:, None])  # [m, n]
        row_sum = row_sum * rescale + weights.sum(axis=1)
        v = v_ref[keys, :]  # [n, D]
        accumulated = accumulated * rescale[:, None]
        accumulated += tiles.product(weights.astype(v.dtype), v, (1, 0))
        return accumulated, new_max, row_sum

    start = (
        jnp.zeros(q.shape, jnp.float32),
        jnp.full((tile.queries,), -jnp.inf, jnp.float32),
        jnp.zeros((tile.queries,), jnp.float32),
    )
    low, high = tiles.key_tiles(call, tile, first, length)
    accumulated, row_max, row_sum = lax.fori_loop(low, high, step, start)
    fully_masked = row_sum == 0.0  # [m]: zeros and an LSE of -inf
    row_sum = jnp.where(fully_masked, 1.0, row_sum)
    out_ref[...] = (accumulated / row_sum[:, None]).astype(out_ref.dtype)
    lse_ref[...] = jnp.where(fully_masked, -jnp.inf, row_max + jnp.log(row_sum))
