"""Small Gemma modules and their inputs.

The same few shapes throughout, and one compiled call for each module: what takes time here is
compilation.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from assay.models.gemma import lora
from assay.models.gemma.attention import MixtureAttention
from assay.models.gemma.config import ExpertConfig
from assay.models.gemma.fast.attention import AutoregressiveAttention
from assay.models.gemma.fast.model import AutoregressiveModel
from assay.models.gemma.model import MixtureModel

BATCH, PREFIX, SUFFIX, CAPACITY = 2, 5, 3, 9
LENGTH = PREFIX + SUFFIX
WIDTHS = (28, 20)
HEAD_DIM = 24  # not a power of four, so that scaling rounds
LAYOUTS = {"as many": (4, 4), "grouped": (4, 2), "one kv head": (4, 1)}
RANK, ALPHA = 2, 3.0
SCALE = ALPHA / RANK  # of the adapters, so not one
VOCABULARY = 29


# Every rounding is done where it is written, and quick compilation comes before quick running.
COMPILER = {"xla_allow_excess_precision": False}
if jax.default_backend() == "cpu":
    COMPILER["xla_backend_optimization_level"] = 0
compiled = partial(jax.jit, compiler_options=COMPILER)


class Case(NamedTuple):
    """A module, parameters for it, and its compiled call on them."""

    module: Any
    parameters: dict
    call: Callable[..., Any]


def normal(shape, *, seed, dtype="float32"):
    drawn = np.random.default_rng(seed).standard_normal(shape)
    return drawn.astype(np.float32).astype(jnp.dtype(dtype))


def some_mask(queries, keys, *, seed=0):
    """[B, 1, queries, keys] at random, but every query sees the first key."""
    mask = np.random.default_rng(seed).random((BATCH, 1, queries, keys)) < 0.6
    mask[..., 0] = True
    return mask


def causal(queries, keys):
    seen = np.arange(keys) <= np.arange(queries)[:, None]
    return np.broadcast_to(seen, (BATCH, 1, queries, keys)).copy()


def positions(first, length):
    """[B, length], counted from `first`."""
    return np.tile(np.arange(first, first + length, dtype=np.int32), (BATCH, 1))


def filled(shapes, *, spread=0.2):
    """Parameters of these shapes, all drawn: none stays at a zero that would hide a mistake."""
    leaves, tree = jax.tree.flatten(shapes)
    drawn = [spread * normal(leaf.shape, seed=seed) for seed, leaf in enumerate(leaves)]
    return tree.unflatten(drawn)


def adapters(wanted, **changed):
    return lora.LoRAConfig(**{"rank": RANK, "alpha": ALPHA, **changed}) if wanted else None


def configs(layout="grouped", *, with_lora=False, **changed):
    """Two experts of different width."""
    heads, kv_heads = LAYOUTS[layout]
    held = {part: adapters(True) for part in ("attn", "ffn")} if with_lora else {}
    usual = {
        "depth": 2, "mlp_dim": 32, "num_heads": heads, "num_kv_heads": kv_heads,
        "head_dim": HEAD_DIM, "lora_configs": held,
    }  # fmt: skip
    return [ExpertConfig(**{"width": width, **usual, **changed}) for width in WIDTHS]


def experts(dtype="float32"):
    return [
        normal((BATCH, PREFIX, WIDTHS[0]), seed=1, dtype=dtype),
        normal((BATCH, SUFFIX, WIDTHS[1]), seed=2, dtype=dtype),
    ]


@cache
def attention(layout="grouped", *, with_lora=False, core="xla") -> Case:
    """MixtureAttention; call(parameters, xs, positions, mask, cache)."""
    module = MixtureAttention(configs=configs(layout, with_lora=with_lora), core=core)
    example = (experts(), positions(0, LENGTH), some_mask(LENGTH, LENGTH), None)
    shapes = jax.eval_shape(module.init, jax.random.key(0), *example)
    return Case(module, filled(shapes), compiled(module.apply))


@cache
def fast_attention(layout="grouped", *, cache_dtype=None, with_lora=False, core="xla") -> Case:
    """AutoregressiveAttention; call(parameters, x, positions, mask, cache)."""
    heads, kv_heads = LAYOUTS[layout]
    module = AutoregressiveAttention(
        num_heads=heads,
        num_kv_heads=kv_heads,
        features=WIDTHS[0],
        head_dim=HEAD_DIM,
        cache_dtype=cache_dtype,
        lora_config=adapters(with_lora),
        core=core,
    )
    x = jnp.zeros((BATCH, PREFIX, WIDTHS[0]))
    example = (x, positions(0, PREFIX), causal(PREFIX, CAPACITY), None)
    shapes = jax.eval_shape(partial(module.init, decode=False), jax.random.key(0), *example)
    return Case(module, filled(shapes), compiled(partial(module.apply, decode=True)))


@cache
def model(
    *, with_lora=False, adaptive=False, dtype="float32", core="xla", layout="one kv head"
) -> Case:
    """MixtureModel; call(parameters, xs, positions, mask, conds, cache)."""
    module = MixtureModel(
        configs=configs(layout, with_lora=with_lora), embed_dtype=dtype, core=core
    )
    made = partial(module.init_with_output, method="init", use_adarms=[False, adaptive])
    shapes = jax.eval_shape(made, jax.random.key(0))[1]

    def call(parameters, xs, at, mask, conds=None, kv_cache=None):
        return module.apply(parameters, xs, at, mask, conds, kv_cache=kv_cache)

    return Case(module, filled(shapes), compiled(call))


@cache
def fast_model(**changed) -> Case:
    """AutoregressiveModel; call(parameters, **keywords of its call)."""
    settings = {
        "variant": "small", "width": WIDTHS[0], "depth": 2, "mlp_dim": 32, "num_heads": 4,
        "num_kv_heads": 1, "head_dim": HEAD_DIM, "norm_eps": 1e-6, "vocab_size": VOCABULARY,
        "embed_dtype": "float32", "scan": True, "remat_policy": "nothing_saveable",
    }  # fmt: skip
    with_lora = changed.pop("with_lora", False)
    held = {part: adapters(True) for part in ("attn", "ffn")} if with_lora else {}
    module = AutoregressiveModel(**{**settings, **changed}, lora_configs=held)
    made = partial(module.init_with_output, method="init")
    shapes = jax.eval_shape(made, jax.random.key(0))[1]
    static = ("embed_only", "decode", "deterministic", "return_prelogits")
    return Case(module, filled(shapes), compiled(module.apply, static_argnames=static))


def close(actual, wanted, tolerance=1e-5):
    np.testing.assert_allclose(
        np.asarray(actual).astype(np.float64),
        np.asarray(wanted).astype(np.float64),
        rtol=tolerance,
        atol=tolerance,
    )


def same_bits(actual, wanted):
    """Equal to the last bit."""
    actual, wanted = np.asarray(actual), np.asarray(wanted)
    assert (actual.dtype, actual.shape) == (wanted.dtype, wanted.shape)
    assert np.array_equal(actual, wanted)


def share_that_differs(actual, wanted):
    """Share of bfloat16 numbers that are not `wanted`, rounded to bfloat16."""
    actual = np.asarray(actual)
    return (actual != np.asarray(wanted).astype(np.float32).astype(actual.dtype)).mean()


def same_rounding(actual, wanted):
    """Equal as bfloat16 but for single ties, where the last bit of a float32 decides.

    A cast left out or added changes tens of percent; see the planted ones.
    """
    wanted = np.asarray(wanted)
    assert actual.dtype == jnp.bfloat16 and actual.shape == wanted.shape
    assert share_that_differs(actual, wanted) <= 0.005 + 1 / wanted.size
    close(actual, wanted, tolerance=2**-7)


def core_named(name, *, layer=None):
    """A core as a layer calls it: the name is looked up, or chosen, at every call."""
    from assay.models.gemma.cores import CORES, chosen_core

    def attend(q, k, v, mask, *, dtype):
        chosen = chosen_core(name, q, k, v, dtype=dtype, layer=layer)
        return CORES[chosen](q, k, v, mask, dtype=dtype)

    return attend
