"""The whole gemma: its layers under scan and rematerialisation, its cache, its conditions."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")
pytest.importorskip("flax")

import jax.numpy as jnp
from gemma_cases import (
    BATCH,
    LENGTH,
    PREFIX,
    VOCABULARY,
    WIDTHS,
    close,
    compiled,
    experts,
    fast_model,
    model,
    normal,
    positions,
    some_mask,
)

from assay.models.gemma.model import AdaptiveRMSNorm, MixtureBlock
from assay.models.gemma.modules import Embedder

GPU = pytest.mark.skipif(jax.default_backend() != "gpu", reason="cuDNN needs an NVIDIA GPU")


def joint(dtype="float32"):
    return experts(dtype), positions(-1, LENGTH), some_mask(LENGTH, LENGTH)[:, 0]


def conditions():
    return [None, normal((BATCH, WIDTHS[1]), seed=7)]


def test_the_scan_is_a_loop_over_the_layers():
    case, (xs, at, mask), conds = model(adaptive=True), joint(), conditions()
    actual, (actual_k, actual_v) = case.call(case.parameters, xs, at, mask, conds)
    block = MixtureBlock(tuple(case.module.configs), core="xla")
    held = case.parameters["params"]

    @compiled
    def layer(weights, xs):
        return block.apply({"params": weights}, xs, None, at, mask[:, None], conds, True)

    for number in range(2):
        weights = jax.tree.map(lambda leaf, number=number: leaf[number], held["layers"])
        xs, (k, v) = layer(weights, xs)
        close(actual_k[number], k)
        close(actual_v[number], v)
    for out, x, name, cond in zip(actual, xs, ("final_norm", "final_norm_1"), conds, strict=True):
        normed, _ = compiled(AdaptiveRMSNorm().apply)({"params": held[name]}, x, cond)
        close(out, normed)


def test_a_cached_prefix_gives_the_joint_pass():
    _, parameters, call = model(adaptive=True)
    (first, second), at, mask = joint()
    mask[:, :PREFIX, PREFIX:] = False
    (_, whole), _ = call(parameters, [first, second], at, mask, conditions())
    short = mask[:, :PREFIX, :PREFIX]
    (_, nothing), cache = call(parameters, [first, None], at[:, :PREFIX], short, conditions())
    assert nothing is None and cache[0].shape[:3] == (2, BATCH, PREFIX)
    rest = ([None, second], at[:, PREFIX:], mask[:, PREFIX:])
    (nothing, out), _ = call(parameters, *rest, conditions(), cache)
    assert nothing is None
    close(out, whole)


@pytest.mark.slow
def test_a_gradient_reaches_every_parameter():
    case, arguments, conds = model(adaptive=True, with_lora=True), joint(), conditions()

    def loss(parameters):
        outputs, _ = case.module.apply(parameters, *arguments, conds)
        return sum(jnp.sum(out**3) for out in outputs)

    grads = compiled(jax.grad(loss))(case.parameters)["params"]
    del grads["embedder"]  # the tokens came embedded
    for path, grad in jax.tree_util.tree_leaves_with_path(grads):
        assert np.isfinite(grad).all() and np.any(grad), jax.tree_util.keystr(path)


CORES = [
    ("pallas", "float32"),
    pytest.param("pallas", "bfloat16", marks=pytest.mark.slow),
    pytest.param("cudnn", "bfloat16", marks=GPU),
]


@pytest.mark.parametrize(("core", "dtype"), CORES)
def test_every_core_gives_the_same_model(core, dtype):
    """Outputs and cache, a query that sees nothing among them."""
    xs, at, mask = joint()
    mask[1, 2] = False
    usual, other = (model(core=name, dtype=dtype, adaptive=True) for name in ("xla", core))
    wanted = usual.call(usual.parameters, xs, at, mask, conditions())
    actual = other.call(usual.parameters, xs, at, mask, conditions())
    for leaf, wanted_leaf in zip(jax.tree.leaves(actual), jax.tree.leaves(wanted), strict=True):
        assert leaf.dtype == wanted_leaf.dtype == dtype
        close(leaf, wanted_leaf, tolerance=1e-5 if dtype == "float32" else 0.1)


@pytest.mark.slow
@pytest.mark.parametrize(("core", "dtype"), CORES)
def test_every_core_gives_the_same_gradients(core, dtype):
    xs, at, mask = joint()
    mask[1, 2] = False
    usual, other = (model(core=name, dtype=dtype) for name in ("xla", core))

    def grads(case):
        def loss(parameters):
            outputs, _ = case.module.apply(parameters, xs, at, mask)
            return sum(jnp.sum(out.astype(jnp.float32) ** 3) for out in outputs)

        return jax.tree.leaves(compiled(jax.grad(loss))(usual.parameters))

    for grad, wanted_grad in zip(grads(other), grads(usual), strict=True):
        largest = max(1.0, np.abs(wanted_grad).max())
        close(grad, wanted_grad, tolerance=largest * (1e-5 if dtype == "float32" else 0.1))


def test_bfloat16_stays_bfloat16():
    case = model(dtype="bfloat16")
    outputs, cache = jax.eval_shape(case.call, case.parameters, *joint())
    assert {leaf.dtype for leaf in jax.tree.leaves((outputs, cache))} == {jnp.dtype("bfloat16")}


def test_embedding_looks_up_and_scales():
    case, tokens = model(dtype="bfloat16"), np.array([[0, 3], [VOCABULARY - 1, 3]])
    actual = case.module.apply(case.parameters, tokens, method="embed")
    rows = case.parameters["params"]["embedder"]["input_embedding"][tokens]
    assert actual.dtype == jnp.bfloat16
    close(actual, rows * np.sqrt(WIDTHS[0]), tolerance=2**-8)
    logits = Embedder(VOCABULARY, WIDTHS[0]).apply(
        {"params": case.parameters["params"]["embedder"]}, rows, method="decode"
    )
    close(logits, rows @ case.parameters["params"]["embedder"]["input_embedding"].T)


def test_a_condition_moves_the_norm_and_gates_the_change():
    """At its start the condition's weights are zero: a plain norm, and a gate that is shut."""
    x, cond = normal((BATCH, 3, 8), seed=1), normal((BATCH, 5), seed=2)
    norm = AdaptiveRMSNorm()
    start = norm.init(jax.random.key(0), x, cond)
    plain = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-6)
    normed, gate = norm.apply(start, x, cond)
    close(normed, plain)
    assert gate.shape == (BATCH, 1, 8) and not np.any(gate)
    kernel, bias = normal((5, 24), seed=3), normal((24,), seed=4)
    moved = {"params": {"Dense_0": {"kernel": kernel, "bias": bias}}}
    normed, gate = norm.apply(moved, x, cond)
    scale, shift, wanted_gate = np.split((cond @ kernel + bias)[:, None], 3, axis=-1)
    close(normed, plain * (1 + scale) + shift)
    close(gate, wanted_gate)


@pytest.mark.parametrize("make", [model, fast_model])
def test_dropout_drops_while_training(make):
    """The flag must be static under rematerialisation: no `if` can ask a traced one.

    openpi marks another argument, so that dropout cannot be switched on there.
    """
    case = make()
    arguments = joint() if make is model else (np.zeros((BATCH, LENGTH), np.int32),)
    module = case.module.clone(dropout=0.5)

    def program(*, deterministic):
        rest = {"deterministic": deterministic, "rngs": {"dropout": jax.random.key(0)}}
        return str(jax.make_jaxpr(lambda p: module.apply(p, *arguments, **rest))(case.parameters))

    assert "random_bits" in program(deterministic=False)
    assert "random_bits" not in program(deterministic=True)
