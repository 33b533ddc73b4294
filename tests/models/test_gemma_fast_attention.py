"""AutoregressiveAttention against NumPy: prefill, decoding, the dtypes of its cache, its end."""

from functools import partial

import numpy as np
import pytest

jax = pytest.importorskip("jax")
pytest.importorskip("flax")

import gemma_reference as reference
import jax.numpy as jnp
from gemma_cases import (
    BATCH,
    CAPACITY,
    HEAD_DIM,
    PREFIX,
    SCALE,
    WIDTHS,
    causal,
    close,
    compiled,
    fast_attention,
    normal,
    positions,
    same_bits,
    same_rounding,
)

DTYPES = [  # x, cache_dtype, the cache, the output
    ("float32", None, "float32", "float32"),
    ("float32", "float32", "float32", "float32"),
    ("float32", "bfloat16", "bfloat16", "float32"),
    ("bfloat16", "bfloat16", "bfloat16", "bfloat16"),
    ("bfloat16", None, "float32", "float32"),
    ("bfloat16", "float32", "float32", "float32"),
]


def tokens(length=PREFIX, *, seed=1, dtype="float32"):
    return normal((BATCH, length, WIDTHS[0]), seed=seed, dtype=dtype)


def steps(dtype="float32"):
    """x, positions and mask of the prefill, then of each token until the cache is full."""
    yield tokens(dtype=dtype), positions(-1, PREFIX), causal(PREFIX, CAPACITY)
    for length in range(PREFIX + 1, CAPACITY + 1):
        mask = causal(CAPACITY, CAPACITY)[:, :, length - 1 : length]
        yield tokens(1, seed=length, dtype=dtype), positions(length, 1), mask


def assert_equal_to_reference(call, parameters, dtype, cache_dtype, same, same_cache):
    cache = None
    for x, at, mask in steps(dtype):
        wanted, wanted_cache = reference.gemma_fast(
            parameters["params"], x, at, mask, cache, dtype=dtype, cache_dtype=cache_dtype,
            scale=SCALE,
        )  # fmt: skip
        actual, cache = call(parameters, x, at, mask, cache)
        same(actual, wanted)
        assert cache[0].dtype == jnp.int32 and (np.asarray(cache[0]) == wanted_cache[0]).all()
        for side, wanted_side in zip(cache[1:], wanted_cache[1:], strict=True):
            same_cache(side, wanted_side)


@pytest.mark.parametrize("with_lora", [False, True], ids=["plain", "lora"])
@pytest.mark.parametrize(
    "layout",
    ["grouped", *(pytest.param(n, marks=pytest.mark.slow) for n in ("as many", "one kv head"))],
)
def test_float32_is_the_reference(layout, with_lora):
    case = fast_attention(layout, with_lora=with_lora)
    assert_equal_to_reference(case.call, case.parameters, "float32", None, close, close)


@pytest.mark.parametrize(
    "layout",
    ["grouped", *(pytest.param(n, marks=pytest.mark.slow) for n in ("as many", "one kv head"))],
)
def test_every_rounding_of_bfloat16_is_in_its_place(layout):
    case = fast_attention(layout, cache_dtype="bfloat16")
    kept = ("bfloat16", "bfloat16", same_rounding, same_rounding)
    with jax.default_device(jax.devices("cpu")[0]):
        assert_equal_to_reference(case.call, case.parameters, *kept)


@pytest.mark.parametrize(("x", "cache_dtype", "held", "out"), DTYPES)
def test_dtypes(x, cache_dtype, held, out):
    case = fast_attention(cache_dtype=cache_dtype)
    arguments = (tokens(dtype=x), positions(0, PREFIX), causal(PREFIX, CAPACITY), None)
    actual, (_, k, v) = jax.eval_shape(case.call, case.parameters, *arguments)
    assert (actual.dtype, k.dtype, v.dtype) == (out, held, held)


@pytest.mark.slow
@pytest.mark.parametrize(("x", "cache_dtype", "held", "out"), DTYPES)
def test_values_in_all_dtypes(x, cache_dtype, held, out):
    """Such as bfloat16 probabilities beside float32 values, and the other way round."""
    case = fast_attention(cache_dtype=cache_dtype)
    same, same_cache = (same_rounding if kind == "bfloat16" else close for kind in (out, held))
    with jax.default_device(jax.devices("cpu")[0]):
        assert_equal_to_reference(case.call, case.parameters, x, cache_dtype, same, same_cache)


def test_prefill_and_decoding_is_the_full_causal_pass():
    _, parameters, call = fast_attention()
    x, mask = tokens(CAPACITY, seed=4), causal(CAPACITY, CAPACITY)
    full, full_cache = call(parameters, x, positions(0, CAPACITY), mask, None)
    cache, actual = None, []
    for start, end in [(0, PREFIX), *((i, i + 1) for i in range(PREFIX, CAPACITY))]:
        at = positions(start, end - start)
        out, cache = call(parameters, x[:, start:end], at, mask[:, :, start:end], cache)
        actual.append(out)
    close(np.concatenate(actual, axis=1), full)
    jax.tree.map(close, cache, full_cache)


def test_more_slots_change_nothing_for_a_query_that_sees_something():
    _, parameters, call = fast_attention()
    rest = (tokens(), positions(0, PREFIX))
    small, _ = call(parameters, *rest, causal(PREFIX, PREFIX), None)
    large, cache = call(parameters, *rest, causal(PREFIX, CAPACITY), None)
    close(small, large, tolerance=1e-6)
    k = np.asarray(cache[1])
    assert k.shape[1] == CAPACITY and (k[:, PREFIX:] == 0).all()


def test_a_query_that_sees_nothing_gets_the_mean_over_all_slots():
    """Empty slots count as zeros, so the mean shrinks with the capacity."""
    _, parameters, call = fast_attention()
    mask = causal(PREFIX, CAPACITY)
    mask[1, 0, 2] = False
    out, (_, _, v) = call(parameters, tokens(), positions(0, PREFIX), mask, None)
    mean = np.repeat(np.asarray(v)[1, :PREFIX].sum(axis=0) / CAPACITY, 2, axis=0)
    wanted = np.einsum("NH,NHD->D", mean, parameters["params"]["attn_vec_einsum"]["w"])
    close(np.asarray(out)[1, 2], wanted)


def test_positions_come_from_the_caller():
    """A decoder that skips a position (the stock one does) is taken at its word."""
    _, parameters, call = fast_attention()
    (x, at, mask), (token, _, seen), *_ = steps()
    _, cache = call(parameters, x, at, mask, None)
    near, _ = call(parameters, token, positions(4, 1), seen, cache)
    far, _ = call(parameters, token, positions(7, 1), seen, cache)
    assert not np.allclose(near, far, atol=1e-3)


def test_the_flags_change_nothing():
    module, parameters, _ = fast_attention()
    rest = (parameters, tokens(), positions(0, PREFIX), causal(PREFIX, CAPACITY), None)
    programs = {
        str(
            jax.make_jaxpr(partial(module.apply, decode=decode, deterministic=deterministic))(*rest)
        )
        for decode in (True, False)
        for deterministic in (True, False)
    }
    assert len(programs) == 1


@pytest.mark.parametrize("core", ["xla", "pallas"])
def test_a_full_cache_gives_nan_under_jit(core):
    """A call whose index is known is refused instead: see the refusals."""
    _, parameters, call = fast_attention(core=core)
    shape = (BATCH, CAPACITY, 2, HEAD_DIM)
    cache = (np.full(BATCH, CAPACITY, np.int32), *(normal(shape, seed=s) for s in (5, 6)))
    mask = causal(CAPACITY, CAPACITY)[:, :, -1:]
    for seen in (True, False):  # the slot that stands in for the token
        mask[..., -1] = seen
        out, (idx, k, v) = call(parameters, tokens(1), positions(CAPACITY, 1), mask, cache)
        assert np.isnan(out).all() and (np.asarray(idx) == CAPACITY + 1).all()
        assert np.isnan(k[:, -1]).all() and np.isnan(v[:, -1]).all()
        same_bits(np.asarray(k)[:, :-1], cache[1][:, :-1])


def test_a_gradient_reaches_every_parameter_and_input():
    case = fast_attention(with_lora=True)
    rest = (positions(0, PREFIX), causal(PREFIX, CAPACITY), None, False)

    def loss(parameters, x):
        out, (_, k, v) = case.module.apply(parameters, x, *rest)
        return sum(jnp.sum(part**2) for part in (out, k, v))

    grads = compiled(jax.grad(loss, argnums=(0, 1)))(case.parameters, tokens())
    for path, grad in jax.tree_util.tree_leaves_with_path(grads):
        assert np.isfinite(grad).all() and np.any(grad), jax.tree_util.keystr(path)
