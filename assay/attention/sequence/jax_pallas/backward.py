"""The backward kernels: probabilities are made again from the LSE, and nothing is added atomically.

Algorithm 2 of Dao, FlashAttention-2 (https://arxiv.org/abs/2307.08691), in two kernels so that
every gradient has one writer: dq has a program per tile of queries, dk and dv one per tile of keys
that visits all query heads reading its kv head. With P the probabilities,

    dV = Pᵀ dO,   dS = P ∘ (dO Vᵀ - delta),   delta = rowsum(dO ∘ O),
    dQ = scale dS K,   dK = scale dSᵀ Q.

B batch, H query heads, G kv heads, R = H / G, M queries, N keys, D head dimension; a tile has m
queries and n keys.
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
    grad_out: jax.Array,
    lse: jax.Array,
    delta: jax.Array,
    *,
    call: StaticCall,
    interpret: bool,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """dq, dk and dv of arrays that are padded to whole tiles; lse and delta are [B, H, M]."""
    inputs = (q, k, v, mask, lengths, grad_out, lse, delta)
    settings: dict[str, Any] = {
        "compiler_params": plgpu.CompilerParams(
            num_warps=call.backward.warps, num_stages=call.backward.stages
        ),
        "interpret": interpret,
    }
    dq = _run_dq(inputs, call, settings)
    dk, dv = _run_dkdv(inputs, call, settings)
    return dq, dk, dv


def _run_dq(inputs: tuple[Any, ...], call: StaticCall, settings: dict[str, Any]) -> jax.Array:
    q, k, _, mask, lengths, *_ = inputs
    batch, heads, queries, _ = q.shape
    tile = call.backward
    rows, row_statistic, all_keys, mask_rows = tiles.query_program_blocks(call, tile, q, k, mask)
    return pl.pallas_call(
        partial(_dq_kernel, call=call, keys_padded=k.shape[2] != call.keys),
        grid=(queries // tile.queries, heads, batch),
        in_specs=(
            *(rows, all_keys, all_keys, mask_rows, tiles.length_block(lengths)),
            *(rows, row_statistic, row_statistic),
        ),
        out_specs=rows,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        name="assay_flash_dq",
        **settings,
    )(*inputs)


def _dq_kernel(
    q_ref: Any,  # [m, D]
    k_ref: Any,  # [N, D]
    v_ref: Any,  # [N, D]
    mask_ref: Any,  # [m, N]
    lengths_ref: Any,  # [1]
    grad_ref: Any,  # [m, D]
    lse_ref: Any,  # [m]
    delta_ref: Any,  # [m]
    dq_ref: Any,  # [m, D]
    *,
    call: StaticCall,
    keys_padded: bool,
) -> None:
    tile = call.backward
    first = pl.program_id(0) * tile.queries
    rows = first + lax.broadcasted_iota(jnp.int32, (tile.queries, tile.keys), 0)  # [m, n]
    columns = lax.broadcasted_iota(jnp.int32, (tile.queries, tile.keys), 1)  # [m, n]
    length = None if lengths_ref is None else lengths_ref[0]
    q, grad = q_ref[...], grad_ref[...]
    lse, delta = lse_ref[...][:, None], delta_ref[...][:, None]  # [m, 1]

    def step(index: jax.Array, dq: jax.Array) -> jax.Array:
        keys = pl.ds(index * tile.keys, tile.keys)
        k = k_ref[keys, :]  # [n, D]
        weights = jnp.exp(tiles.product(q, k, (1, 1)) * call.scale - lse)  # [m, n]
        mask = None if mask_ref is None else mask_ref[:, keys]
        key_index = index * tile.keys + columns
        visible = tiles.visibility_mask(
            call, rows, key_index, keys_padded=keys_padded, length=length, mask=mask
        )
        if visible is not None:
            # Weights and not scores: a fully masked row has an LSE of -inf.
            weights = jnp.where(visible, weights, 0.0)
        grad_scores = weights * (tiles.product(grad, v_ref[keys, :], (1, 1)) - delta)  # [m, n]
        return dq + tiles.product(grad_scores.astype(k.dtype), k, (1, 0))

    low, high = tiles.key_tiles(call, tile, first, length)
    dq = lax.fori_loop(low, high, step, jnp.zeros(q.shape, jnp.float32))
    dq_ref[...] = (dq * call.scale).astype(dq_ref.dtype)


def _run_dkdv(
    inputs: tuple[Any, ...], call: StaticCall, settings: dict[str, Any]
) -> tuple[jax.Array, jax.Array]:
    q, k, v, mask, lengths, grad_out, lse, delta = inputs
    batch, kv_heads, keys, dim = k.shape
    queries, tile = q.shape[2], call.backward
    columns = pl.BlockSpec((None, None, tile.keys, dim), lambda n, g, b: (b, g, n, 0))  # [n, D]
    by_group = (batch, kv_heads, call.group, queries)
    group_rows = pl.BlockSpec(
        (None, None, call.group, queries, dim), lambda n, g, b: (b, g, 0, 0, 0)
    )  # [R, M, D]
    group_statistic = pl.BlockSpec(
        (None, None, call.group, queries), lambda n, g, b: (b, g, 0, 0)
    )  # [R, M]
    mask_columns = None
    if mask is not None:
        by_batch, by_head = mask.shape[0] > 1, mask.shape[1] > 1
        mask_columns = pl.BlockSpec(
            (None, call.group if by_head else 1, queries, tile.keys),
            lambda n, g, b: (b if by_batch else 0, g if by_head else 0, 0, n),
        )  # [R or 1, M, n]
    return pl.pallas_call(
        partial(_dkdv_kernel, call=call, keys_padded=keys != call.keys),
        grid=(keys // tile.keys, kv_heads, batch),
        in_specs=(
            *(group_rows, columns, columns, mask_columns, tiles.length_block(lengths)),
            *(group_rows, group_statistic, group_statistic),
        ),
        out_specs=(columns, columns),
        out_shape=(jax.ShapeDtypeStruct(k.shape, k.dtype), jax.ShapeDtypeStruct(v.shape, v.dtype)),
        name="assay_flash_dkv",
        **settings,
    )(
        *(q.reshape(*by_group, dim), k, v, mask, lengths),
        *(grad_out.reshape(*by_group, dim), lse.reshape(by_group), delta.reshape(by_group)),
    )


def _dkdv_kernel(
    q_ref: Any,  # [R, M, D]
    k_ref: Any,  # [n, D]
    v_ref: Any,  # [n, D]
    mask_ref: Any,  # [R or 1, M, n]
    lengths_ref: Any,  # [1]
    grad_ref: Any,  # [R, M, D]
    lse_ref: Any,  # [R, M]
    delta_ref: Any,  # [R, M]
    dk_ref: Any,  # [n, D]
    dv_ref: Any,  # [n, D]
    *,
    call: StaticCall,
    keys_padded: bool,
) -> None:
    """Scores lie transposed here, [n, m], so that both gradients are plain products."""
    tile = call.backward
    first = pl.program_id(0) * tile.keys
    columns = first + lax.broadcasted_iota(jnp.int32, (tile.keys, tile.queries), 0)  # [n, m]
    rows = lax.broadcasted_iota(jnp.int32, (tile.keys, tile.queries), 1)  # [n, m]
    length = None if lengths_ref is None else lengths_ref[0]
    k, v = k_ref[...], v_ref[...]
    low, high = tiles.query_tiles(call, tile, first, length)

    def for_head(head: jax.Array, state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        def step(index: jax.Array, state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
            dk, dv = state  # [n, D]
            queries = pl.ds(index * tile.queries, tile.queries)
            q, grad = q_ref[head, queries, :], grad_ref[head, queries, :]  # [m, D]
            lse, delta = lse_ref[head, queries][None, :], delta_ref[head, queries][None, :]
            weights = jnp.exp(tiles.product(k, q, (1, 1)) * call.scale - lse)  # [n, m]
            mask = None
            if mask_ref is not None:
                mask = mask_ref[head if mask_ref.shape[0] > 1 else 0, queries, :].T  # [n, m]
            row_index = index * tile.queries + rows
            visible = tiles.visibility_mask(
                call, row_index, columns, keys_padded=keys_padded, length=length, mask=mask
            )
            if visible is not None:
                weights = jnp.where(visible, weights, 0.0)
            dv += tiles.product(weights.astype(grad.dtype), grad, (1, 0))
            grad_scores = weights * (tiles.product(v, grad, (1, 1)) - delta)  # [n, m]
            return dk + tiles.product(grad_scores.astype(q.dtype), q, (1, 0)), dv

        return lax.fori_loop(low, high, step, state)

    zeros = jnp.zeros(k.shape, jnp.float32)
    dk, dv = lax.fori_loop(0, call.group, for_head, (zeros, zeros))
    dk_ref[...] = (dk * call.scale).astype(dk_ref.dtype)
    dv_ref[...] = dv.astype(dv_ref.dtype)
