"""Modes, cuts and budgets of a capture in JAX, and errors that become counted losses."""

import pytest

pytest.importorskip("jax")
pytest.importorskip("flax")

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax_models import (
    BATCH,
    HEADS,
    LENGTH,
    WIDTH,
    Tiny,
    TinyAttention,
    capture,
    inputs,
    keys,
    parameters,
    records,
    tensors,
)

from assay.captures import statistics
from assay.captures.jax import statistics as jax_statistics
from assay.captures.manifest import TensorEntry
from assay.captures.tensor import tensor_of


def run(path, *, times=1, depth=1, **choices):
    """Capture a model; the capture."""
    model = Tiny(depth=depth)
    call, variables = jax.jit(model.apply), parameters(model)
    with capture(model, path, **choices) as flax_capture:
        for seed in range(times):
            call(variables, inputs(seed))
    return flax_capture


def test_statistics_only(tmp_path):
    run(tmp_path / "full")
    run(tmp_path / "stats", mode="stats")
    (record,) = records(tmp_path / "stats")
    assert record.file is None and not list((tmp_path / "stats").rglob("*.safetensors"))
    for name, bits in tensors(tmp_path / "full", "layer=0").items():
        heads = 1 if name in "qkvout" else None
        wanted = statistics.statistics(tensor_of(bits), heads_axis=heads)
        assert_alike(record.tensors[name].stats, wanted)


def test_statistics_leave_the_device_as_numbers(tmp_path):
    """Operands of the callbacks are small, whatever the size of the tensors."""
    model = Tiny(depth=1)
    variables, long = parameters(model), jnp.zeros((1, 512, WIDTH))
    with capture(model, tmp_path, mode="stats"):
        text = jax.jit(model.apply).lower(variables, long).as_text()
        assert "512x512" in text  # the scores, in the program
        calls = [line for line in text.splitlines() if "callback" in line and "custom_call" in line]
        assert calls and not any("512" in line for line in calls)
    with capture(model, tmp_path, mode="full"):
        text = jax.jit(model.apply).lower(variables, long).as_text()
        calls = [line for line in text.splitlines() if "callback" in line and "custom_call" in line]
        assert any("512" in line for line in calls)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn", "int32", "bool"])
def test_statistics_are_those_of_the_host(dtype):
    drawn = np.random.default_rng(3).standard_normal((2, 3, 5, 4)) * 4
    x = jnp.asarray(drawn).at[0, 0, 0].set(0).astype(dtype)
    if dtype in ("float32", "bfloat16"):
        x = x.at[0, 1, 2].set(jnp.nan).at[1, 0, 0, 0].set(jnp.inf)
    computed = unpacked(k=x, q=x)
    wanted = statistics.statistics(tensor_of(np.asarray(x)), heads_axis=1)
    assert_alike(computed["k"], wanted)
    assert_alike(computed["q"], wanted)


def test_statistics_of_nothing_finite_are_none():
    x = jnp.full((2, 2), jnp.nan)
    computed = unpacked(x=x)["x"]
    assert (computed.count, computed.nonfinite, computed.mean, computed.outliers) == (
        4,
        4,
        None,
        [],
    )


def test_shapes_only(tmp_path):
    run(tmp_path, mode="shapes")
    (record,) = records(tmp_path)
    assert record.tensors["q"].shape == (BATCH, HEADS, LENGTH, WIDTH // HEADS)
    assert record.tensors["q"].stats is None and record.file is None


def around(model, way):
    """A program around a model, and the keys of its calls."""
    variables = parameters(model)
    run = lambda x: model.apply(variables, x).sum()  # noqa: E731
    inner = jax.jit(run)
    programs = {
        "grad of vmap": (jax.grad(lambda x: jax.vmap(run)(x[None].repeat(3, 0)).sum()), 1),
        "an inner jit, twice": (lambda x: inner(x) + inner(x * 2), 2),
        "a while loop": (
            lambda x: jax.lax.while_loop(
                lambda n: n[0] < 2, lambda n: (n[0] + 1, run(x)), (0, 0.0)
            ),
            2,
        ),
    }
    return programs[way]


@pytest.mark.sampled
@pytest.mark.parametrize("mode", ["stats", pytest.param("shapes", marks=pytest.mark.slow)])
@pytest.mark.parametrize("way", ["grad of vmap", "an inner jit, twice", "a while loop"])
def test_summaries_come_once_too(way, mode, tmp_path):
    """They are gathered in a run and sent together."""
    model = Tiny(depth=2, remat=True)
    program, steps = around(model, way)
    with capture(model, tmp_path, mode=mode) as flax_capture:
        jax.jit(program)(inputs())
    assert keys(tmp_path) == [(step, layer, 0) for step in range(steps) for layer in range(2)]
    assert flax_capture.report().duplicates == 0 and flax_capture.report().dropped == {}
    q = records(tmp_path)[0].tensors["q"]
    rows = BATCH * (3 if "vmap" in way else 1)
    assert q.shape == (rows, HEADS, LENGTH, WIDTH // HEADS)
    assert (q.stats is None) if mode == "shapes" else (q.stats.count == 4 * rows * LENGTH)


def test_a_model_whose_layers_are_looped_over_by_a_while_loop(tmp_path):
    """Nothing can be handed out of such a loop, so each turn sends for itself."""

    class Repeated(nn.Module):
        @nn.compact
        def __call__(self, x):
            mask = jnp.ones((1, 1, LENGTH, LENGTH), dtype=bool)
            attention = TinyAttention(name="attn")
            turn = lambda pair: (pair[0] + 1, attention(pair[1], mask))  # noqa: E731
            return jax.lax.while_loop(lambda pair: pair[0] < 3, turn, (0, x))[1]

    w = parameters(Tiny(depth=1))["params"]["layers"]["attn"]["w"][0]
    for mode in ("stats", "full"):
        with capture(None, tmp_path / mode, mode=mode):
            jax.jit(Repeated().apply)({"params": {"attn": {"w": w}}}, inputs())
        assert keys(tmp_path / mode) == [(0, 0, call) for call in range(3)]


def test_cuts_are_made_on_the_device(tmp_path):
    run(tmp_path / "whole")
    run(tmp_path / "cut", heads=1, rows=0)
    whole, cut = (tensors(tmp_path / name, "layer=0") for name in ("whole", "cut"))
    np.testing.assert_array_equal(cut["q"], whole["q"][:1, 1:])
    (record,) = records(tmp_path / "cut")
    assert record.cut["heads"].startswith("1 of 2")
    assert record.tensors["x"].why and "x" not in cut


def test_outputs_can_be_left_out(tmp_path):
    run(tmp_path, outputs=False)
    assert set(tensors(tmp_path, "layer=0")) == {"q", "k", "v", "x", "mask"}


def test_a_budget_of_records_is_kept_and_the_rest_counted(tmp_path):
    flax_capture = run(tmp_path, times=4, depth=2, max_records=3)
    assert keys(tmp_path) == [(0, 0, 0), (0, 1, 0), (1, 0, 0)]
    assert flax_capture.report().dropped == {"record budget": 5}


def test_a_predicate_decides(tmp_path):
    run(tmp_path, times=2, depth=2, predicate=lambda step, layer, site: step == layer)
    assert keys(tmp_path) == [(0, 0, 0), (1, 1, 0)]


def test_an_error_on_the_host_is_a_counted_loss_and_not_the_models(tmp_path, monkeypatch, capsys):
    """XLA would end the step with an error of its own where a callback raises."""
    from assay.captures.jax import recorder

    real = recorder._held

    def failing(array):
        if failing.times:
            failing.times -= 1
            raise MemoryError("no room for a copy")
        return real(array)

    failing.times = 1
    monkeypatch.setattr(recorder, "_held", failing)
    flax_capture = run(tmp_path, times=2)
    assert keys(tmp_path) == [(1, 0, 0)]
    ((reason, count),) = flax_capture.report().dropped.items()
    assert "no room for a copy" in reason and count == 1
    assert "no room for a copy" in capsys.readouterr().err


def test_bfloat16_survives(tmp_path):
    model = Tiny(depth=1)
    variables = jax.tree.map(lambda w: jnp.asarray(w, jnp.bfloat16), parameters(model))
    x = inputs().astype(jnp.bfloat16)
    with capture(model, tmp_path):
        jax.jit(model.apply)(variables, x)
    captured = tensors(tmp_path, "layer=0")["x"]
    assert records(tmp_path)[0].tensors["x"].dtype == "bfloat16"
    np.testing.assert_array_equal(captured, np.asarray(x * 2).view(np.uint16))


def test_what_arrives_after_the_end_is_left(tmp_path):
    """A program compiled ahead under the capture runs on; nothing takes its calls any more."""
    model = Tiny(depth=1)
    variables = parameters(model)
    with capture(model, tmp_path) as flax_capture:
        ahead = jax.jit(model.apply).lower(variables, inputs()).compile()
        ahead(variables, inputs())
    out = ahead(variables, inputs())
    jax.effects_barrier()
    assert np.isfinite(out).all() and keys(tmp_path) == [(0, 0, 0)]
    assert flax_capture.report().records == 1


def unpacked(**tensors):
    entries = {n: TensorEntry(dtype=x.dtype.name, shape=x.shape) for n, x in tensors.items()}
    return jax_statistics.unpack(entries, np.asarray(jax_statistics.pack(tensors)))


def assert_alike(computed, wanted):
    exact = ("count", "nonfinite", "zeros", "minimum", "maximum", "absmax")
    for name in exact:
        assert getattr(computed, name) == getattr(wanted, name), name
    np.testing.assert_allclose([computed.mean, computed.std], [wanted.mean, wanted.std], rtol=1e-5)
    assert [size for _, size in computed.outliers] == [size for _, size in wanted.outliers]
