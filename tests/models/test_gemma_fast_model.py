"""The whole gemma_fast: prefill and decoding, what it returns, its layers under scan."""

from functools import partial

import numpy as np
import pytest

jax = pytest.importorskip("jax")
pytest.importorskip("flax")

import jax.numpy as jnp
from gemma_cases import (
    BATCH,
    CAPACITY,
    PREFIX,
    VOCABULARY,
    WIDTHS,
    causal,
    close,
    compiled,
    fast_model,
    normal,
    positions,
    same_bits,
)

from assay.models.gemma.fast.model import AutoregressiveBlock, RMSNorm

GPU = pytest.mark.skipif(jax.default_backend() != "gpu", reason="cuDNN needs an NVIDIA GPU")
TOKENS = np.arange(BATCH * CAPACITY).reshape(BATCH, CAPACITY) % VOCABULARY


def test_prefill_and_decoding_is_the_full_causal_pass():
    """The first tokens come embedded, as images do; the last token fills the last slot."""
    _, parameters, call = fast_model()
    full, full_cache, _ = call(parameters, TOKENS)
    embedded = call(parameters, TOKENS[:, :2], embed_only=True)
    mask = causal(CAPACITY, CAPACITY)[:, 0]
    logits, cache, _ = call(
        parameters, TOKENS[:, 2:PREFIX], embedded, decode=True,
        positions=positions(0, PREFIX), mask=mask[:, :PREFIX],
    )  # fmt: skip
    actual = [logits]
    for at in range(PREFIX, CAPACITY):
        logits, cache, _ = call(
            parameters, TOKENS[:, at : at + 1], decode=True, kv_cache=cache,
            positions=positions(at, 1), mask=mask[:, at : at + 1],
        )  # fmt: skip
        actual.append(logits)
    close(np.concatenate(actual, axis=1), full, tolerance=2e-5)
    jax.tree.map(partial(close, tolerance=2e-5), cache, full_cache)
    assert cache[0].shape == (2, BATCH) and cache[1].shape[:3] == (2, BATCH, CAPACITY)


def test_the_scan_is_a_loop_over_the_layers():
    case, held = fast_model(), fast_model().parameters["params"]
    _, (_, found_k, _), stages = case.call(case.parameters, TOKENS)
    block = AutoregressiveBlock(4, 1, WIDTHS[0], case.module.head_dim, 32, core="xla")
    mask = causal(CAPACITY, CAPACITY)

    @compiled
    def layer(weights, x):
        return block.apply({"params": weights}, x, None, positions(0, CAPACITY), mask, False)

    x = held["embedder"]["input_embedding"][TOKENS] * np.float32(np.sqrt(WIDTHS[0]))
    for number in range(2):
        weights = jax.tree.map(lambda leaf, number=number: leaf[number], held["layers"])
        x, (_, k, _) = layer(weights, x)
        close(found_k[number], k)
    close(stages["encoded"], x)
    close(
        stages["pre_logits"],
        compiled(RMSNorm().apply)({"params": held["final_norm"]}, x),
    )
    close(stages["logits"], stages["pre_logits"] @ held["embedder"]["input_embedding"].T)


def test_what_is_returned():
    case = fast_model()
    call = partial(jax.eval_shape, lambda p, **arguments: case.module.apply(p, **arguments))
    logits, (idx, k, _), stages = call(case.parameters, tokens=TOKENS)
    assert logits.shape == (BATCH, CAPACITY, VOCABULARY) and idx.dtype == jnp.int32
    assert k.shape == (2, BATCH, CAPACITY, 1, case.module.head_dim)
    assert set(stages) == {"encoded", "pre_logits", "logits"}

    def quick(p, **arguments):
        return case.module.apply(p, return_prelogits=True, **arguments)

    normed, _, stages = jax.eval_shape(quick, case.parameters, tokens=TOKENS)
    assert normed.shape == (BATCH, CAPACITY, WIDTHS[0]) and set(stages) == {"encoded", "pre_logits"}
    again, stages = call(case.parameters, pre_logits=normed)
    assert again.shape == logits.shape and set(stages) == {"pre_logits", "logits"}


def test_the_mask_is_causal_by_default():
    _, parameters, call = fast_model()
    usual, _, _ = call(parameters, TOKENS)
    arguments = {"mask": causal(CAPACITY, CAPACITY), "positions": positions(0, CAPACITY)[:1]}
    close(call(parameters, TOKENS, **arguments)[0], usual, tolerance=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["none", "dots_saveable"])
def test_rematerialisation_changes_no_gradient(policy):
    def grads(case):
        def loss(parameters):
            return jnp.sum(case.module.apply(parameters, TOKENS)[0] ** 2)

        return compiled(jax.grad(loss))(fast_model().parameters)

    actual, wanted = grads(fast_model(remat_policy=policy)), grads(fast_model())
    for grad, wanted_grad in zip(jax.tree.leaves(actual), jax.tree.leaves(wanted), strict=True):
        assert np.any(wanted_grad)
        close(grad, wanted_grad, tolerance=1e-5 * np.abs(wanted_grad).max())


def test_running_over_the_end_gives_nan_under_jit():
    _, parameters, call = fast_model()
    _, (idx, k, v), _ = call(parameters, TOKENS)
    assert (np.asarray(idx) == CAPACITY).all()
    logits, (_, k, v), _ = call(
        parameters, TOKENS[:, :1], decode=True, kv_cache=(idx, k, v),
        positions=positions(CAPACITY, 1), mask=np.ones((BATCH, 1, CAPACITY), bool),
    )  # fmt: skip
    assert np.isnan(logits).all()
    for held in (k, v):
        assert np.isnan(held).any(axis=(0, 1, 3, 4)).tolist() == [False] * (CAPACITY - 1) + [True]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("core", "dtype"),
    [("pallas", "float32"), pytest.param("cudnn", "bfloat16", marks=GPU)],
)
def test_every_core_gives_the_same_model(core, dtype):
    """Prefill and one decoded token, with a query that sees nothing."""
    mask = causal(PREFIX, CAPACITY)
    mask[1, 0, 0] = False
    results = []
    for name in ("xla", core):
        _, parameters, call = fast_model(core=name, embed_dtype=dtype, cache_dtype=dtype)
        logits, cache, _ = call(parameters, TOKENS[:, :PREFIX], mask=mask)
        arguments = {
            "positions": positions(PREFIX, 1),
            "mask": causal(CAPACITY, CAPACITY)[:, :, 5:6],
        }
        token, cache, _ = call(parameters, TOKENS[:, 5:6], **arguments, kv_cache=cache, decode=True)
        results.append((logits, token, cache))
    for wanted_leaf, leaf in zip(*map(jax.tree.leaves, results), strict=True):
        close(leaf, wanted_leaf, tolerance=2e-5 if dtype == "float32" else 0.1)


@pytest.mark.slow
def test_decoding_in_a_loop_on_the_device():
    """As a policy decodes: a while loop whose state holds the cache."""
    module, parameters, call = fast_model()
    _, cache, _ = call(parameters, TOKENS[:, :PREFIX], mask=causal(PREFIX, CAPACITY))

    def step(state):
        at, token, cache = state
        mask = jnp.broadcast_to(jnp.arange(CAPACITY) <= at, (BATCH, 1, CAPACITY))
        where = jnp.full((BATCH, 1), at)
        logits, cache, _ = module.apply(
            parameters, token, positions=where, mask=mask, decode=True, kv_cache=cache
        )
        return at + 1, jnp.argmax(logits, axis=-1), cache

    @compiled
    def decode(cache):
        start = (PREFIX, jnp.ones((BATCH, 1), jnp.int32), cache)
        return jax.lax.while_loop(lambda state: state[0] < CAPACITY, step, start)

    _, token, (idx, k, _) = decode(cache)
    assert (np.asarray(idx) == CAPACITY).all() and np.isfinite(k).all()
    assert set(np.asarray(token).flat) <= set(range(VOCABULARY))
    same_bits(k[:, :, :PREFIX], cache[1][:, :, :PREFIX])


def test_the_norm_alone():
    x = normal((2, 3, 8), seed=1, dtype="bfloat16")
    out = RMSNorm().apply({"params": {"scale": np.full(8, 0.5, np.float32)}}, x)
    wide = x.astype(np.float32)
    assert out.dtype == jnp.bfloat16
    close(out, 1.5 * wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-6), tolerance=2**-8)
