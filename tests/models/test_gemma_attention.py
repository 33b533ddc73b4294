"""MixtureAttention against NumPy, and what must hold whatever the numbers are."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")
pytest.importorskip("flax")

import gemma_reference as reference
import jax.numpy as jnp
from gemma_cases import (
    BATCH,
    HEAD_DIM,
    LAYOUTS,
    LENGTH,
    PREFIX,
    SCALE,
    SUFFIX,
    attention,
    close,
    compiled,
    experts,
    normal,
    positions,
    same_bits,
    same_rounding,
    share_that_differs,
    some_mask,
)

from assay.models.gemma.attention import MixtureAttention

SLOW = pytest.mark.slow


def joint(xs):
    return xs, positions(-1, LENGTH), some_mask(LENGTH, LENGTH)


def prefix(xs):
    return [xs[0], None], positions(-1, PREFIX), some_mask(PREFIX, PREFIX, seed=1)


def suffix(xs):
    return [None, xs[1]], positions(PREFIX - 1, SUFFIX), some_mask(SUFFIX, LENGTH, seed=2)


ARGUMENTS = {"joint": joint, "prefix": prefix, "suffix": suffix}
CALLS = list(ARGUMENTS)


def assert_equal_to_reference(case, call, dtype, same):
    """One call, the suffix with a cache as the prefix would have left it."""
    _, parameters, attend = case
    kv_heads = case.module.configs[0].num_kv_heads
    held = (BATCH, PREFIX, kv_heads, HEAD_DIM)
    cache = tuple(normal(held, seed=seed, dtype=dtype) for seed in (5, 6))
    arguments = (parameters, *ARGUMENTS[call](experts(dtype)), cache if call == "suffix" else None)
    actual = attend(*arguments)
    wanted = reference.gemma(arguments[0]["params"], *arguments[1:], dtype=dtype, scale=SCALE)
    for leaf, wanted_leaf in zip(jax.tree.leaves(actual), jax.tree.leaves(wanted), strict=True):
        assert leaf.dtype == jnp.dtype(dtype)
        same(leaf, wanted_leaf)


@pytest.mark.parametrize("call", CALLS)
def test_float32_is_the_reference(call):
    assert_equal_to_reference(attention(), call, "float32", close)


@pytest.mark.parametrize("call", ["joint", pytest.param("suffix", marks=SLOW)])
def test_float32_with_adapters_is_the_reference(call):
    assert_equal_to_reference(attention(with_lora=True), call, "float32", close)


@SLOW
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("with_lora", [False, True], ids=["plain", "lora"])
@pytest.mark.parametrize("layout", ["as many", "one kv head"])
def test_float32_is_the_reference_for_other_heads(layout, with_lora, call):
    assert_equal_to_reference(attention(layout, with_lora=with_lora), call, "float32", close)


@pytest.mark.parametrize(
    ("layout", "call"),
    [
        ("grouped", "joint"),
        ("as many", "joint"),
        pytest.param("one kv head", "joint", marks=SLOW),
        *(pytest.param(layout, call, marks=SLOW) for layout in LAYOUTS for call in CALLS[1:]),
    ],
)
def test_every_rounding_of_bfloat16_is_in_its_place(layout, call):
    with jax.default_device(jax.devices("cpu")[0]):
        assert_equal_to_reference(attention(layout), call, "bfloat16", same_rounding)


@pytest.mark.parametrize("step", ["projected", "turned", "scaled", "weights", "encoded"])
def test_a_rounding_left_out_would_show(step):
    """The test above can see what it is there for."""
    arguments = (attention().parameters["params"], *joint(experts("bfloat16")))
    right, _ = reference.gemma(*arguments, dtype="bfloat16")
    wrong, _ = reference.gemma(*arguments, dtype="bfloat16", skipping=step)
    assert share_that_differs(right[0].astype(jnp.bfloat16), wrong[0]) > 0.05


@SLOW
def test_bfloat16_with_adapters_is_within_a_unit_in_the_last_place():
    """The sum of B over heads is done in bfloat16, in an order that is XLA's own."""

    def near(actual, wanted):
        close(actual, wanted, tolerance=2**-7 * max(1.0, np.abs(wanted).max()))

    assert_equal_to_reference(attention(with_lora=True), "joint", "bfloat16", near)


def test_a_prefix_and_then_the_rest_is_the_joint_pass():
    """The prefix must not see the suffix for this, as in a policy that caches its prompt."""
    _, parameters, call = attention()
    first, second = experts()
    at, mask = positions(-1, LENGTH), some_mask(LENGTH, LENGTH)
    mask[:, :, :PREFIX, PREFIX:] = False
    whole, whole_cache = call(parameters, [first, second], at, mask, None)
    short = mask[:, :, :PREFIX, :PREFIX]
    before, cache = call(parameters, [first, None], at[:, :PREFIX], short, None)
    after, cache = call(parameters, [None, second], at[:, PREFIX:], mask[:, :, PREFIX:], cache)
    assert before[1] is None and after[0] is None
    close(before[0], whole[0])
    close(after[1], whole[1])
    jax.tree.map(close, cache, whole_cache)


def test_an_expert_that_is_none_is_as_one_that_does_not_exist():
    module, parameters, call = attention()
    first = experts()[0]
    alone = MixtureAttention(configs=module.configs[:1], core="xla")
    rest = (positions(0, PREFIX), some_mask(PREFIX, PREFIX), None)
    held = {name: w for name, w in parameters["params"].items() if not name.endswith("_1")}
    (out, _), cache = call(parameters, [first, None], *rest)
    (lone,), lone_cache = compiled(alone.apply)({"params": held}, [first], *rest)
    same_bits(out, lone)
    jax.tree.map(same_bits, cache, lone_cache)


def test_kv_heads_can_change_places_with_their_queries():
    _, parameters, call = attention("grouped")
    order, queries = np.array([1, 0]), np.array([2, 3, 0, 1])
    moved = {
        name: {"w": held["w"][:, order] if name.startswith("kv") else held["w"][queries]}
        for name, held in parameters["params"].items()
    }
    rest = (*joint(experts()), None)
    out, (k, v) = call(parameters, *rest)
    other, (other_k, other_v) = call({"params": moved}, *rest)
    jax.tree.map(close, out, other)
    same_bits(other_k, np.asarray(k)[:, :, order])
    same_bits(other_v, np.asarray(v)[:, :, order])


def test_only_differences_of_positions_count():
    _, parameters, call = attention()
    xs, mask = experts(), some_mask(LENGTH, LENGTH)
    here, _ = call(parameters, xs, positions(-3, LENGTH), mask, None)
    shifted, _ = call(parameters, xs, positions(40, LENGTH), mask, None)
    wider, _ = call(parameters, xs, 2 * positions(0, LENGTH), mask, None)
    for out, shifted_out, wider_out in zip(here, shifted, wider, strict=True):
        close(out, shifted_out)
        assert not np.allclose(out, wider_out, atol=1e-3)


def test_positions_once_for_all_rows_and_a_mask_of_numbers():
    _, parameters, call = attention()
    xs, at, mask = joint(experts())
    usual = call(parameters, xs, at, mask, None)
    jax.tree.map(same_bits, usual, call(parameters, xs, at[:1], mask.astype(np.float32), None))


def test_what_is_hidden_has_no_effect():
    _, parameters, call = attention()
    (first, second), at, mask = joint(experts())
    mask[..., 3] = False
    out, _ = call(parameters, [first, second], at, mask, None)
    changed = first.copy()
    changed[:, 3] += 50.0
    other, _ = call(parameters, [changed, second], at, mask, None)
    rows = np.arange(PREFIX) != 3
    same_bits(np.asarray(other[0])[:, rows], np.asarray(out[0])[:, rows])
    same_bits(other[1], out[1])


def test_a_cache_in_float32_lifts_the_output():
    _, parameters, call = attention()
    cache = tuple(normal((2, PREFIX, 2, HEAD_DIM), seed=seed) for seed in (5, 6))
    arguments = (parameters, *suffix(experts("bfloat16")), cache)
    (_, out), (k, v) = jax.eval_shape(call, *arguments)
    assert out.dtype == k.dtype == v.dtype == jnp.float32


@SLOW
def test_a_gradient_reaches_every_parameter_and_input():
    case, (xs, at, mask) = attention(with_lora=True), joint(experts())

    def loss(parameters, xs):
        outputs, (k, v) = case.module.apply(parameters, xs, at, mask, None)
        return sum(jnp.sum(x**2) for x in (*outputs, k, v))

    grads = compiled(jax.grad(loss, argnums=(0, 1)))(case.parameters, xs)
    for path, grad in jax.tree_util.tree_leaves_with_path(grads):
        assert np.isfinite(grad).all() and np.any(grad), jax.tree_util.keystr(path)
