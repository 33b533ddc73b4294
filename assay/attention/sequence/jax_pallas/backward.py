"""The backward kernels: probabilities are made again from the LSE, and nothing is added atomically.

Algorithm 2 of Dao, FlashAttention-2 (https://arxiv.org/abs/2307.08691), in two kernels so that
every gradient has one writer: dq has a program per tile of queries, dk and dv one per tile of keys
that walks over all query heads reading its kv head. With P the probabilities,

    dV = Pᵀ dO,   dS = P ∘ (dO Vᵀ - delta),   delta = rowsum(dO ∘ O),
    dQ = scale dS K,   dK = scale dSᵀ Q.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

from assay.attention.sequence.jax_pallas import tiles
from assay.attention.sequence.jax_pallas.forward import per_batch, row_mask
from assay.attention.sequence.jax_pallas.tiles import Plan


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
    plan: Plan,
    interpret: bool,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """dq, dk and dv of arrays that are padded to whole tiles; lse and delta are [B, H, M]."""
    inputs = (q, k, v, mask, lengths, grad_out, lse, delta)
    settings: dict[str, Any] = {
        "compiler_params": plgpu.CompilerParams(
            num_warps=plan.backward.warps, num_stages=plan.backward.stages
        ),
        "interpret": interpret,
    }
    dq = _for_queries(inputs, plan, settings)
    dk, dv = _for_keys(inputs, plan, settings)
    return dq, dk, dv


def _for_queries(inputs: tuple[Any, ...], plan: Plan, settings: dict[str, Any]) -> jax.Array:
    q, k, _, mask, lengths, *_ = inputs
    batch, heads, queries, dim = q.shape
    keys, used = k.shape[2], plan.backward
    rows = pl.BlockSpec((None, None, used.queries, dim), lambda m, h, b: (b, h, m, 0))
    row_values = pl.BlockSpec((None, None, used.queries), lambda m, h, b: (b, h, m))
    all_keys = pl.BlockSpec((None, None, keys, dim), lambda m, h, b: (b, h // plan.group, 0, 0))
    masks, length = row_mask(mask, used.queries), per_batch(lengths)
    return pl.pallas_call(
        partial(_query_kernel, plan=plan, whole=keys == plan.keys),
        grid=(queries // used.queries, heads, batch),
        in_specs=(rows, all_keys, all_keys, masks, length, rows, row_values, row_values),
        out_specs=rows,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        name="assay_flash_dq",
        **settings,
    )(*inputs)


def _query_kernel(
    q_ref: Any,
    k_ref: Any,
    v_ref: Any,
    mask_ref: Any,
    lengths_ref: Any,
    grad_ref: Any,
    lse_ref: Any,
    delta_ref: Any,
    dq_ref: Any,
    *,
    plan: Plan,
    whole: bool,
) -> None:
    used = plan.backward
    first = pl.program_id(0) * used.queries
    rows = first + lax.broadcasted_iota(jnp.int32, (used.queries, used.keys), 0)
    columns = lax.broadcasted_iota(jnp.int32, (used.queries, used.keys), 1)
    length = None if lengths_ref is None else lengths_ref[0]
    q, grad = q_ref[...], grad_ref[...]
    lse, delta = lse_ref[...][:, None], delta_ref[...][:, None]

    def step(tile: jax.Array, dq: jax.Array) -> jax.Array:
        keys = pl.ds(tile * used.keys, used.keys)
        k = k_ref[keys, :]
        weights = jnp.exp(tiles.product(q, k, (1, 1)) * plan.scale - lse)
        mask = None if mask_ref is None else mask_ref[:, keys]
        at = tile * used.keys + columns
        seen = tiles.visible(plan, rows, at, whole=whole, length=length, mask=mask)
        if seen is not None:
            weights = jnp.where(seen, weights, 0.0)
        grad_scores = weights * (tiles.product(grad, v_ref[keys, :], (1, 1)) - delta)
        return dq + tiles.product(grad_scores.astype(k.dtype), k, (1, 0))

    low, high = tiles.key_tiles(plan, used, first, length)
    dq = lax.fori_loop(low, high, step, jnp.zeros(q.shape, jnp.float32))
    dq_ref[...] = (dq * plan.scale).astype(dq_ref.dtype)


def _for_keys(
    inputs: tuple[Any, ...], plan: Plan, settings: dict[str, Any]
) -> tuple[jax.Array, jax.Array]:
    q, k, v, mask, lengths, grad_out, lse, delta = inputs
    batch, kv_heads, keys, dim = k.shape
    queries, used = q.shape[2], plan.backward
    columns = pl.BlockSpec((None, None, used.keys, dim), lambda n, g, b: (b, g, n, 0))
    by_group = (batch, kv_heads, plan.group, queries)
    whole_group = pl.BlockSpec(
        (None, None, plan.group, queries, dim), lambda n, g, b: (b, g, 0, 0, 0)
    )
    group_values = pl.BlockSpec((None, None, plan.group, queries), lambda n, g, b: (b, g, 0, 0))
    grouped = (q.reshape(*by_group, dim), grad_out.reshape(*by_group, dim))
    values = (lse.reshape(by_group), delta.reshape(by_group))
    mask_spec = None
    if mask is not None:
        by_batch, by_head = mask.shape[0] > 1, mask.shape[1] > 1
        mask_spec = pl.BlockSpec(
            (None, plan.group if by_head else 1, queries, used.keys),
            lambda n, g, b: (b if by_batch else 0, g if by_head else 0, 0, n),
        )
    return pl.pallas_call(
        partial(_key_kernel, plan=plan, whole=keys == plan.keys),
        grid=(keys // used.keys, kv_heads, batch),
        in_specs=(
            *(whole_group, columns, columns, mask_spec, per_batch(lengths)),
            *(whole_group, group_values, group_values),
        ),
        out_specs=(columns, columns),
        out_shape=(jax.ShapeDtypeStruct(k.shape, k.dtype), jax.ShapeDtypeStruct(v.shape, v.dtype)),
        name="assay_flash_dkv",
        **settings,
    )(grouped[0], k, v, mask, lengths, grouped[1], *values)


def _key_kernel(
    q_ref: Any,
    k_ref: Any,
    v_ref: Any,
    mask_ref: Any,
    lengths_ref: Any,
    grad_ref: Any,
    lse_ref: Any,
    delta_ref: Any,
    dk_ref: Any,
    dv_ref: Any,
    *,
    plan: Plan,
    whole: bool,
) -> None:
    """Scores lie transposed here, [keys, queries], so that both gradients are plain products."""
    used = plan.backward
    first = pl.program_id(0) * used.keys
    columns = first + lax.broadcasted_iota(jnp.int32, (used.keys, used.queries), 0)
    rows = lax.broadcasted_iota(jnp.int32, (used.keys, used.queries), 1)
    length = None if lengths_ref is None else lengths_ref[0]
    k, v = k_ref[...], v_ref[...]
    low, high = tiles.query_tiles(plan, used, first, length)

    def for_head(head: jax.Array, state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        def step(tile: jax.Array, state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
            dk, dv = state
            queries = pl.ds(tile * used.queries, used.queries)
            q, grad = q_ref[head, queries, :], grad_ref[head, queries, :]
            lse, delta = lse_ref[head, queries][None, :], delta_ref[head, queries][None, :]
            weights = jnp.exp(tiles.product(k, q, (1, 1)) * plan.scale - lse)
            mask = None
            if mask_ref is not None:
                mask = mask_ref[head if mask_ref.shape[0] > 1 else 0, queries, :].T
            at = tile * used.queries + rows
            seen = tiles.visible(plan, at, columns, whole=whole, length=length, mask=mask)
            if seen is not None:
                weights = jnp.where(seen, weights, 0.0)
            dv += tiles.product(weights.astype(grad.dtype), grad, (1, 0))
            grad_scores = weights * (tiles.product(v, grad, (1, 1)) - delta)
            return dk + tiles.product(grad_scores.astype(q.dtype), q, (1, 0)), dv

        return lax.fori_loop(low, high, step, state)

    zeros = jnp.zeros(k.shape, jnp.float32)
    dk, dv = lax.fori_loop(0, plan.group, for_head, (zeros, zeros))
    dk_ref[...] = (dk * plan.scale).astype(dk_ref.dtype)
    dv_ref[...] = dv.astype(dv_ref.dtype)
