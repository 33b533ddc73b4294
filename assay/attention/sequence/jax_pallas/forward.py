"""The forward kernel: one program per tile of queries walks over the keys with a running softmax.

Algorithm 1 of Dao, FlashAttention-2 (https://arxiv.org/abs/2307.08691): the accumulator is
rescaled when a larger score appears and divided by the row's sum once, at the end.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

from assay.attention.sequence.jax_pallas import tiles
from assay.attention.sequence.jax_pallas.tiles import Plan


def run(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    mask: jax.Array | None,
    lengths: jax.Array | None,
    *,
    plan: Plan,
    interpret: bool,
) -> tuple[jax.Array, jax.Array]:
    """Output [B, H, M, D] and LSE [B, H, M] of arrays that are padded to whole tiles."""
    batch, heads, queries, dim = q.shape
    keys, used = k.shape[2], plan.forward
    rows = pl.BlockSpec((None, None, used.queries, dim), lambda m, h, b: (b, h, m, 0))
    row_values = pl.BlockSpec((None, None, used.queries), lambda m, h, b: (b, h, m))
    all_keys = pl.BlockSpec((None, None, keys, dim), lambda m, h, b: (b, h // plan.group, 0, 0))
    return pl.pallas_call(
        partial(_kernel, plan=plan, whole=keys == plan.keys),
        grid=(queries // used.queries, heads, batch),
        in_specs=(rows, all_keys, all_keys, row_mask(mask, used.queries), per_batch(lengths)),
        out_specs=(rows, row_values),
        out_shape=(
            jax.ShapeDtypeStruct(q.shape, q.dtype),
            jax.ShapeDtypeStruct(q.shape[:3], jnp.float32),
        ),
        compiler_params=plgpu.CompilerParams(num_warps=used.warps, num_stages=used.stages),
        interpret=interpret,
        name="assay_flash_forward",
    )(q, k, v, mask, lengths)


def row_mask(mask: jax.Array | None, rows: int) -> pl.BlockSpec | None:
    """For a program per tile of queries: the mask's rows for them, over all keys."""
    if mask is None:
        return None
    by_batch, by_head = mask.shape[0] > 1, mask.shape[1] > 1
    return pl.BlockSpec(
        (None, None, rows, mask.shape[3]),
        lambda m, h, b: (b if by_batch else 0, h if by_head else 0, m, 0),
    )


def per_batch(lengths: jax.Array | None) -> pl.BlockSpec | None:
    """For any program: the one length that is its batch entry's."""
    return None if lengths is None else pl.BlockSpec((1,), lambda i, h, b: (b,))


def _kernel(
    q_ref: Any,
    k_ref: Any,
    v_ref: Any,
    mask_ref: Any,
    lengths_ref: Any,
    out_ref: Any,
    lse_ref: Any,
    *,
    plan: Plan,
    whole: bool,
) -> None:
    used = plan.forward
    first = pl.program_id(0) * used.queries
    rows = first + lax.broadcasted_iota(jnp.int32, (used.queries, used.keys), 0)
    columns = lax.broadcasted_iota(jnp.int32, (used.queries, used.keys), 1)
    length = None if lengths_ref is None else lengths_ref[0]
    q = q_ref[...]

    def step(tile: jax.Array, state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        accumulated, highest, total = state
        keys = pl.ds(tile * used.keys, used.keys)
        scores = tiles.product(q, k_ref[keys, :], (1, 1)) * plan.scale
        mask = None if mask_ref is None else mask_ref[:, keys]
        at = tile * used.keys + columns
        seen = tiles.visible(plan, rows, at, whole=whole, length=length, mask=mask)
        if seen is not None:
            scores = jnp.where(seen, scores, -jnp.inf)
        raised = jnp.maximum(highest, scores.max(axis=1))
        # A row that has seen nothing yet has no highest score; zero keeps inf - inf away.
        around = jnp.where(raised == -jnp.inf, 0.0, raised)
        kept = jnp.exp(highest - around)
        weights = jnp.exp(scores - around[:, None])
        total = total * kept + weights.sum(axis=1)
        v = v_ref[keys, :]
        accumulated = accumulated * kept[:, None]
        accumulated += tiles.product(weights.astype(v.dtype), v, (1, 0))
        return accumulated, raised, total

    start = (
        jnp.zeros(q.shape, jnp.float32),
        jnp.full((used.queries,), -jnp.inf, jnp.float32),
        jnp.zeros((used.queries,), jnp.float32),
    )
    low, high = tiles.key_tiles(plan, used, first, length)
    accumulated, highest, total = lax.fori_loop(low, high, step, start)
    blind = total == 0.0
    total = jnp.where(blind, 1.0, total)
    out_ref[...] = (accumulated / total[:, None]).astype(out_ref.dtype)
    lse_ref[...] = jnp.where(blind, -jnp.inf, highest + jnp.log(total))
