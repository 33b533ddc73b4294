"""Capture is off without a trace of it, comes on after compilation, and goes off again."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("jax")
pytest.importorskip("flax")

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax_models import (
    Layer,
    Tiny,
    TinyAttention,
    capture,
    inputs,
    keys,
    loss,
    parameters,
    records,
    tensors,
)

import assay
from assay.captures.store import Store
from assay.errors import BadInput

PROGRAM = """
import sys
sys.path[:0] = [{tests!r}, {root!r}]
import jax
from jax_models import Tiny, inputs, loss, parameters
model = Tiny(remat=True)
step = jax.jit(jax.value_and_grad(loss(model)))
print(step.lower(parameters(model), inputs()).as_text())
"""


def test_off_the_program_is_that_of_a_process_that_never_captured(tmp_path):
    here = Path(__file__).parent
    program = PROGRAM.format(tests=str(here), root=str(here.parent.parent))
    never = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    model = Tiny(remat=True)
    step = jax.jit(jax.value_and_grad(loss(model)))
    lowered = lambda: step.lower(parameters(model), inputs()).as_text()  # noqa: E731
    with capture(model, tmp_path) as flax_capture:
        on = lowered()
        with flax_capture.paused():
            paused = lowered()
    assert lowered() + "\n" == never.stdout
    assert paused == lowered()
    assert on != paused and "callback" in on and "callback" not in paused


def test_on_after_compilation_and_off_again(tmp_path):
    model, traced = Tiny(depth=1), []
    variables = parameters(model)

    @jax.jit
    def run(x):
        traced.append(x)
        return model.apply(variables, x)

    run(inputs())
    with capture(model, tmp_path) as flax_capture:
        for _ in range(3):
            run(inputs())
        with flax_capture.paused():
            run(inputs())
    run(inputs())
    assert keys(tmp_path) == [(0, 0, 0), (1, 0, 0), (2, 0, 0)]
    before = len(traced)
    with capture(model, tmp_path):
        run(inputs())
    run(inputs())
    assert len(traced) == before + 1  # for the second capture; the plain program was kept


def test_steps_that_are_not_wanted_run_the_plain_program(tmp_path):
    model = Tiny(depth=1)
    run, variables = jax.jit(model.apply), parameters(model)
    with capture(model, tmp_path, every=2) as flax_capture:
        for step in range(4):
            with flax_capture.step(step):
                text = run.lower(variables, inputs()).as_text()
                assert ("callback" in text) == (step % 2 == 0)
                run(variables, inputs())
    assert keys(tmp_path) == [(0, 0, 0), (2, 0, 0)]


def test_without_steps_said_the_program_asks_which_are_wanted(tmp_path):
    model = Tiny(depth=3)
    run, variables = jax.jit(model.apply), parameters(model)
    with capture(model, tmp_path, every=2, layers="1:") as flax_capture:
        for _ in range(3):
            run(variables, inputs())
    assert keys(tmp_path) == [(0, 1, 0), (0, 2, 0), (2, 1, 0), (2, 2, 0)]
    assert flax_capture.report().dropped == {}


def test_two_models_with_settings_of_their_own(tmp_path):
    small, large = Tiny(depth=1), Tiny(depth=2)

    @jax.jit
    def both(x):
        return small.apply(parameters(small), x) + large.apply(parameters(large), x)

    with capture(small, tmp_path / "small"), capture(large, tmp_path / "large", mode="shapes"):
        both(inputs())
    assert keys(tmp_path / "small") == [(0, 0, 0)]
    assert keys(tmp_path / "large") == [(0, 0, 0), (0, 1, 0)]
    assert records(tmp_path / "small")[0].mode == "full"
    assert records(tmp_path / "large")[0].mode == "shapes"


def test_two_captures_of_one_model(tmp_path):
    model = Tiny(depth=2)
    run, variables = jax.jit(jax.grad(loss(model))), parameters(model)
    with capture(model, tmp_path / "one"), capture(model, tmp_path / "two", layers=1):
        run(variables, inputs())
    assert keys(tmp_path / "one") == [(0, 0, 0), (0, 1, 0)]
    assert keys(tmp_path / "two") == [(0, 1, 0)]


def test_jax_is_left_as_it_was(tmp_path):
    def parts():
        functions = (jax.lax.scan, jax.lax.while_loop, jax.lax.fori_loop, jax.lax.map)
        return (*functions, jax.checkpoint, jax.remat, jnp.einsum, jax.nn.dot_product_attention)

    before = parts()
    with pytest.raises(RuntimeError, match="of the model"), capture(None, tmp_path):
        assert parts() != before
        raise RuntimeError("an error of the model")
    assert parts() == before


def test_another_thread_is_not_captured(tmp_path):
    model = Tiny(depth=1)
    variables, done = parameters(model), []
    with capture(model, tmp_path):
        other = threading.Thread(
            target=lambda: done.append(jax.jit(model.apply)(variables, inputs()))
        )
        other.start()
        other.join()
        jax.jit(model.apply)(variables, inputs())
    assert done and keys(tmp_path) == [(0, 0, 0)]


def test_the_class_of_attentions_may_be_told(tmp_path):
    model = Tiny(depth=1)
    variables = parameters(model)
    with capture(Tiny, tmp_path, attention=Layer):
        jax.jit(model.apply)(variables, inputs())
    # A Layer holds no Layer, so that it is the innermost of what was asked for.
    assert [record.key.site for record in records(tmp_path)] == ["layers"]
    assert {"q", "k", "v", "out", "x", "mask", "layer_out"} <= set(tensors(tmp_path, "layer=0"))
    captured = tensors(tmp_path, "layer=0")
    assert (captured["x"] == inputs()).all()


def test_initialisation_is_no_call(tmp_path):
    model = TinyAttention()
    mask = jnp.ones((1, 1, 3, 3), dtype=bool)
    w = parameters(Tiny(depth=1))["params"]["layers"]["attn"]["w"][0]
    with capture(model, tmp_path):
        jax.jit(model.init)(jax.random.key(0), inputs(), mask)
        jax.jit(model.apply)({"params": {"w": w}}, inputs(), mask)
    assert [record.key.site for record in records(tmp_path)] == ["TinyAttention"]


def test_the_one_line(tmp_path):
    model = Tiny(depth=1)
    with assay.capturing(model, tmp_path / "store", scale=1.0, phase="eval") as flax_capture:
        jax.jit(jax.grad(loss(model)))(parameters(model), inputs())
    (record,) = records(tmp_path)
    assert flax_capture.report().records == 1
    assert (record.phase, record.scalars["scale"], record.framework) == ("eval", 1.0, "jax")
    run = Store.open(tmp_path / "store").manifest().runs[0]
    assert run.model == {"framework": "flax", "class": "jax_models.Tiny"}
    assert run.config == {"depth": 1, "scan": True, "remat": False}
    with pytest.raises(BadInput, match="no choice sized; there are every, first"):
        assay.capturing(model, tmp_path / "store", sized=3)


def test_nothing_seen_is_told(tmp_path, capsys):
    with capture(Tiny(depth=5), tmp_path):
        jax.jit(Tiny(depth=1).apply)(parameters(Tiny(depth=1)), inputs())
    assert "nothing captured: looked in Tiny" in capsys.readouterr().err
    with (
        capture(Tiny(depth=5), tmp_path) as flax_capture,
        pytest.raises(BadInput, match="no attention"),
    ):
        flax_capture.collect(lambda x: x)(inputs())


scan_of_old = jax.lax.scan  # as `from jax.lax import scan` would have it


def test_a_loop_that_is_not_known_is_counted_as_a_loss(tmp_path):
    class Old(nn.Module):
        @nn.compact
        def __call__(self, x):
            mask = jnp.ones((1, 1, 3, 3), dtype=bool)
            attention = TinyAttention(name="attn")
            return scan_of_old(lambda x, _: (attention(x, mask), None), x, None, length=3)[0]

    w = parameters(Tiny(depth=1))["params"]["layers"]["attn"]["w"][0]
    with capture(None, tmp_path) as flax_capture:
        jax.jit(Old().apply)({"params": {"attn": {"w": w}}}, inputs())
    assert keys(tmp_path) == [(0, 0, 0)]
    (reason, count), *_ = flax_capture.report().dropped.items()
    assert "turn of a loop" in reason and count == 2
