"""One record for each attention of each run of a model, whatever the model's program is put into.

jax.debug.callback alone is called twice under a checkpoint that is differentiated, once for every
row under vmap, and in any order; see docs/capture-jax.md for what was found.
"""

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

ONE_RUN = [(0, layer, 0) for layer in range(3)]
MODELS = {
    "unrolled": Tiny(scan=False),
    "scan": Tiny(),
    "unrolled remat": Tiny(scan=False, remat=True),
    "scan remat": Tiny(remat=True),
}
WAYS = {
    "eager": lambda f: f,
    "jit": jax.jit,
    "jit of grad": lambda f: jax.jit(jax.grad(f)),
    "grad of jit": lambda f: jax.grad(jax.jit(f)),
    "jit of grad of checkpoint": lambda f: jax.jit(lambda p, x: jax.grad(jax.checkpoint(f))(p, x)),
    "jit of a second derivative": lambda f: jax.jit(
        lambda p, x: jax.jvp(lambda x: jax.grad(f, argnums=1)(p, x), (x,), (x,))
    ),
}


CASES = [
    pytest.param(name, way, marks=() if quick else pytest.mark.slow, id=f"{name}, {way}")
    for name in MODELS
    for way in WAYS
    for quick in [name == "scan remat" or way == "jit of grad"]
]


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "way"), CASES)
def test_one_record_for_each_layer(name, way, tmp_path):
    model = MODELS[name]
    variables, x = parameters(model), inputs()
    with capture(model, tmp_path) as flax_capture:
        WAYS[way](loss(model))(variables, x)
    assert keys(tmp_path) == ONE_RUN
    assert flax_capture.report().dropped == {}
    phase = {record.phase for record in records(tmp_path)}
    assert phase == ({"eval"} if way in ("eager", "jit") else {"train"})


def test_values_are_those_the_attention_got(tmp_path):
    """Under grad, scan and remat together, in order of layers. Inputs are doubled residuals, which
    rounds nothing, so they can be told to the bit; the rest is computed again in the open."""
    model = Tiny(remat=True)
    variables, x = parameters(model), np.asarray(inputs())
    with capture(model, tmp_path):
        jax.jit(jax.grad(loss(model)))(variables, x)
    for number, w in enumerate(variables["params"]["layers"]["attn"]["w"]):
        captured = tensors(tmp_path, f"layer={number}")
        np.testing.assert_array_equal(captured["x"], x * 2)
        for name, wanted in _attention(w, captured["x"]).items():
            np.testing.assert_allclose(captured[name], wanted, rtol=2e-5, atol=2e-6)
        assert captured["mask"].dtype == bool and captured["mask"].shape == (1, 1, LENGTH, LENGTH)
        x = x + captured["layer_out"]
    lines = (tmp_path / "store" / "manifest.jsonl").read_text().splitlines()
    arrived = [line for line in lines if '"kind":"record"' in line]
    assert [f'"layer":{n}' in line for n, line in enumerate(arrived)] == [True] * 3


@pytest.mark.parametrize("name", [pytest.param("scan", marks=pytest.mark.slow), "scan remat"])
def test_vmap_is_one_call_with_all_rows(name, tmp_path):
    model = MODELS[name]
    variables = parameters(model)
    many = jnp.stack([inputs(seed) for seed in range(5)])
    each = jax.vmap(jax.grad(loss(model)), in_axes=(None, 0))
    with capture(model, tmp_path):
        jax.jit(each)(variables, many)
    assert keys(tmp_path) == ONE_RUN
    captured = tensors(tmp_path, "layer=0")
    assert captured["x"].shape == (5 * BATCH, LENGTH, WIDTH)
    np.testing.assert_array_equal(captured["x"], np.asarray(many).reshape(captured["x"].shape) * 2)
    assert captured["mask"].shape[0] in (1, 5, 5 * BATCH)


def test_a_scan_around_the_model_makes_steps(tmp_path):
    """Accumulated gradients: each part of the batch is a run of the model."""
    model = Tiny(remat=True)
    variables = parameters(model)
    parts = jnp.stack([inputs(seed) for seed in range(2)])

    @jax.jit
    def accumulated(variables, parts):
        grad = jax.grad(loss(model))
        zero = jax.tree.map(jnp.zeros_like, variables)

        def turn(total, x):
            return jax.tree.map(jnp.add, total, grad(variables, x)), None

        return jax.lax.scan(turn, zero, parts)[0]

    with capture(model, tmp_path):
        accumulated(variables, parts)
    assert keys(tmp_path) == [(step, layer, 0) for step in range(2) for layer in range(3)]
    for step in range(2):
        np.testing.assert_array_equal(
            tensors(tmp_path, f"step={step},layer=0")["x"], np.asarray(parts[step]) * 2
        )


def test_a_scan_around_the_model_that_is_differentiated(tmp_path):
    """JAX takes calls of the host out of a differentiated scan where nothing in them changes from
    turn to turn: all turns once had one ticket, and all but the first were lost as duplicates."""
    model = Tiny(depth=2)
    with capture(model, tmp_path):
        jax.jit(jax.grad(_scanned(loss(model))))(parameters(model), inputs())
    assert keys(tmp_path) == [(step, layer, 0) for step in range(2) for layer in range(2)]


def _with_own_gradient(f):
    own = jax.custom_vjp(f)
    own.defvjp(lambda p, x: jax.vjp(f, p, x), lambda vjp, g: vjp(g))
    return own


def _branch(f):
    return lambda p, x: jax.lax.cond(x.sum() < 1e3, f, lambda p, x: 0.0, p, x)


def _twice(f):
    return lambda p, x: jax.lax.fori_loop(0, 2, lambda n, total: total + f(p, x + n), 0.0)


def _repeated(f):
    def turn(p, x, pair):
        return pair[0] + 1, pair[1] + f(p, x)

    return lambda p, x: jax.lax.while_loop(
        lambda pair: pair[0] < 3, lambda pair: turn(p, x, pair), (0, 0.0)
    )


def _scanned(f):
    def scanned(p, x):
        return jax.lax.scan(lambda total, n: (total + f(p, x * n), None), 0.0, jnp.ones(2))[0]

    return scanned


# What a program does with the model -> how many steps that is, and how many calls in each.
PROGRAMS = {
    "custom_vjp": (lambda f: jax.grad(_with_own_gradient(f)), 1, 1),
    "cond": (lambda f: jax.grad(_branch(f)), 1, 1),
    "fori_loop": (_twice, 2, 1),
    "map": (lambda f: lambda p, x: jax.lax.map(lambda n: f(p, x * n), jnp.ones(2)), 2, 1),
    "hessian": (lambda f: lambda p, x: jax.hessian(lambda a: f(p, x * a))(1.0), 1, 1),
    # Made when it is called: a checkpoint from before the capture is not known to it.
    "scan in a checkpoint": (
        lambda f: lambda p, x: jax.grad(jax.checkpoint(_scanned(f)))(p, x), 1, 2
    ),
    "while_loop": (_repeated, 3, 1),
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n == "while_loop" else pytest.mark.slow) for n in PROGRAMS]
)
def test_programs_that_take_the_model_in(name, tmp_path):
    put, steps, calls = PROGRAMS[name]
    model = Tiny(depth=2, remat=True)
    with capture(model, tmp_path) as flax_capture:
        jax.jit(put(loss(model)))(parameters(model), inputs())
    wanted = [(s, layer, c) for s in range(steps) for layer in range(2) for c in range(calls)]
    assert keys(tmp_path) == wanted
    assert flax_capture.report().duplicates == 0 and flax_capture.report().dropped == {}


def test_a_branch_under_vmap_needs_a_step(tmp_path):
    """Both branches run then, and neither may ask the host."""
    model = Tiny(depth=1)
    variables = parameters(model)
    both = jax.vmap(lambda x: _branch(loss(model))(variables, x))
    with capture(model, tmp_path) as flax_capture:
        with pytest.raises(ValueError, match="under vmap"):
            jax.jit(both)(jnp.stack([inputs(0), inputs(1)]))
        with flax_capture.step(2):
            jax.jit(both)(jnp.stack([inputs(0), inputs(1)]))
    assert keys(tmp_path) == [(2, 0, 0)]


def test_a_capture_begins_outside_of_traced_functions(tmp_path):
    def begun(x):
        with capture(None, tmp_path):
            return x

    with pytest.raises(ValueError, match="being traced"):
        jax.jit(begun)(1.0)


def test_a_jitted_function_called_twice_in_a_program_makes_two_steps(tmp_path):
    """It is traced once, so only the running program can tell its calls apart."""
    model = Tiny(depth=2)
    variables = parameters(model)
    inner = jax.jit(model.apply)
    outer = jax.jit(lambda x: inner(variables, inner(variables, x)))
    with capture(model, tmp_path):
        outer(inputs())
    assert keys(tmp_path) == [(step, layer, 0) for step in range(2) for layer in range(2)]
    np.testing.assert_array_equal(
        tensors(tmp_path, "step=0,layer=0")["x"], np.asarray(inputs()) * 2
    )


def test_calls_of_one_step_are_numbered(tmp_path):
    model = Tiny(depth=2)
    variables, run = parameters(model), jax.jit(model.apply)
    with capture(model, tmp_path) as flax_capture:
        with flax_capture.step(7):
            run(variables, inputs(0))
            run(variables, inputs(1))
        run(variables, inputs(2))
    assert keys(tmp_path) == [(7, 0, 0), (7, 0, 1), (7, 1, 0), (7, 1, 1), (8, 0, 0), (8, 1, 0)]
    np.testing.assert_array_equal(
        tensors(tmp_path, "step=7,layer=0,call=1")["x"], np.asarray(inputs(1)) * 2
    )


def test_a_traced_step(tmp_path):
    model = Tiny(depth=1)
    variables = parameters(model)
    with capture(model, tmp_path) as flax_capture:

        @jax.jit
        def run(step, x):
            with flax_capture.step(step):
                return model.apply(variables, x)

        for step in (3, 9):
            run(jnp.int32(step), inputs())
    assert keys(tmp_path) == [(3, 0, 0), (9, 0, 0)]


def test_a_model_in_an_old_checkpoint_needs_a_step(tmp_path):
    """A checkpoint made before the capture began is not known to it, and takes no host values."""
    model = Tiny()
    variables = parameters(model)
    old = jax.jit(jax.grad(jax.checkpoint(loss(model))))
    with capture(model, tmp_path) as flax_capture:
        with pytest.raises(ValueError, match="say the step"):
            old(variables, inputs())
        with flax_capture.step(4):
            old(variables, inputs())
    assert keys(tmp_path) == [(4, layer, 0) for layer in range(3)]


def _attention(w, x):
    q, k, v = (np.tanh(x @ w[n]).reshape(BATCH, LENGTH, 2, 2).swapaxes(1, 2) for n in range(3))
    scores = np.where(np.tril(np.ones((LENGTH, LENGTH))), q @ k.swapaxes(2, 3), -np.inf)
    weights = np.exp(scores)
    out = weights / weights.sum(axis=-1, keepdims=True) @ v
    layer_out = out.swapaxes(1, 2).reshape(BATCH, LENGTH, WIDTH)
    return {"q": q, "k": k, "v": v, "out": out, "layer_out": layer_out}
