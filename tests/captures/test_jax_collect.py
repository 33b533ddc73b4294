"""Calls as results of a function: once for each layer, through scan, remat and has_aux."""

import pytest

pytest.importorskip("jax")
pytest.importorskip("flax")

import jax
import jax.numpy as jnp
import numpy as np
from jax_models import (
    BATCH,
    LENGTH,
    WIDTH,
    Tiny,
    capture,
    inputs,
    keys,
    loss,
    parameters,
    records,
    tensors,
)

from assay.captures.store import Store
from assay.errors import BadInput

MODELS = {"unrolled": Tiny(scan=False), "scan remat": Tiny(remat=True)}


@pytest.mark.parametrize("name", MODELS)
def test_what_is_collected_is_what_callbacks_take(name, tmp_path):
    model = MODELS[name]
    variables, x = parameters(model), inputs()
    with capture(model, tmp_path) as flax_capture:
        collected = jax.jit(jax.value_and_grad(flax_capture.collect(loss(model)), has_aux=True))
        (value, calls), gradient = collected(variables, x)
        flax_capture.save(calls, step=5)
        with flax_capture.step(6):
            jax.jit(jax.grad(loss(model)))(variables, x)
    assert keys(tmp_path) == [(step, layer, 0) for step in (5, 6) for layer in range(3)]
    assert {record.phase for record in records(tmp_path)} == {"train"}
    for layer in range(3):
        first, second = (tensors(tmp_path, f"step={step},layer={layer}") for step in (5, 6))
        assert first.keys() == second.keys() == {"q", "k", "v", "out", "x", "mask", "layer_out"}
        for tensor in first:
            np.testing.assert_array_equal(first[tensor], second[tensor])
    wanted, gradient_wanted = jax.jit(jax.value_and_grad(loss(model)))(variables, x)
    assert value == wanted
    jax.tree.map(np.testing.assert_array_equal, gradient, gradient_wanted)


def test_the_program_of_results_has_no_callback(tmp_path):
    model = Tiny(remat=True)
    with capture(model, tmp_path) as flax_capture:
        collected = jax.jit(flax_capture.collect(loss(model)))
        assert "callback" not in collected.lower(parameters(model), inputs()).as_text()


def test_loops_around_the_model_are_calls_of_the_step(tmp_path):
    """Microbatches under a scan of the user, in one saved step."""
    model = Tiny(depth=2)
    variables = parameters(model)
    parts = jnp.stack([inputs(0), inputs(1)])

    def run(parts):
        return jax.lax.scan(lambda c, x: (c, model.apply(variables, x).sum()), 0, parts)[1]

    with capture(model, tmp_path) as flax_capture:
        _, calls = jax.jit(flax_capture.collect(run))(parts)
        flax_capture.save(calls, step=0)
    assert keys(tmp_path) == [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1)]
    for call in range(2):
        x = tensors(tmp_path, f"layer=0,call={call}")["x"]
        np.testing.assert_array_equal(x, parts[call] * 2)


def test_statistics_are_collected_as_numbers(tmp_path):
    model = Tiny(depth=2)
    with capture(model, tmp_path, mode="stats") as flax_capture:
        _, calls = jax.jit(flax_capture.collect(model.apply))(parameters(model), inputs())
        assert sum(leaf.size for leaf in jax.tree.leaves(calls)) < 2 * 7 * 30
        flax_capture.save(calls, step=0)
    x = records(tmp_path)[0].tensors["x"]
    assert x.shape == (BATCH, LENGTH, WIDTH) and x.stats.count == x.stats.zeros + 24 - 0
    np.testing.assert_allclose(x.stats.mean, np.mean(inputs() * 2), rtol=1e-5)


def test_what_cannot_be_brought_out_is_refused(tmp_path):
    model = Tiny(depth=1)
    variables = parameters(model)
    inner = jax.jit(model.apply)

    def looped(x):
        return jax.lax.while_loop(lambda x: x.sum() < 0, lambda x: model.apply(variables, x), x)

    with capture(model, tmp_path) as flax_capture:
        inner(variables, inputs())  # in a cache, where collect must not find it
        with pytest.raises(BadInput, match="a trace of its own"):
            flax_capture.collect(lambda x: inner(variables, x))(inputs())
        with pytest.raises(BadInput, match="a while or fori loop"):
            flax_capture.collect(looped)(inputs())
        _, calls = jax.vmap(flax_capture.collect(lambda x: model.apply(variables, x)))(
            inputs()[None]
        )
        with pytest.raises(BadInput, match="outside of vmap"):
            flax_capture.save(calls, step=0)
    with pytest.raises(BadInput, match="not open"):
        flax_capture.save(flax_capture.collect(model.apply)(variables, inputs())[1], step=1)
    assert keys(tmp_path) == [(0, 0, 0)]
    assert Store.open(tmp_path / "store").manifest().ends[0].records == 1
