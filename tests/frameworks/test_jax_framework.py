"""How arrays enter and leave JAX, and how its work is waited for."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp

import assay
from assay import plugins
from assay.subjects.sequence import framework_named
from assay.workloads.values import rounded

FRAMEWORK = framework_named("jax")


def test_it_keeps_the_contract():
    plugins.check(plugins.find("frameworks", "jax"))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_values_arrive_and_return_exactly(dtype):
    values = rounded(np.random.default_rng(0).standard_normal((2, 3, 5, 4)), dtype)
    array = FRAMEWORK.place(values, dtype, "cpu")
    assert FRAMEWORK.is_array(array) and not FRAMEWORK.is_array(values)
    assert FRAMEWORK.dtype_name(array) == dtype
    assert array.devices() == {jax.devices("cpu")[0]}
    assert np.array_equal(FRAMEWORK.numpy(array), values)
    assert FRAMEWORK.numpy(array).dtype == np.float64
    assert len(FRAMEWORK.bits(array)) == values.size * array.dtype.itemsize
    again = np.frombuffer(FRAMEWORK.bits(array), array.dtype).reshape(values.shape)
    assert np.array_equal(again.astype(np.float64), values)


def test_what_is_placed_does_not_follow_the_numpy_array():
    """The CPU backend may keep the memory it is given, if that is aligned as it likes."""
    values = np.zeros((64, 64), np.float32)
    array = FRAMEWORK.place(values, "float32", "cpu")
    values[:] = 7
    assert (FRAMEWORK.numpy(array) == 0).all()


def test_marks_keep_their_dtype():
    assert FRAMEWORK.marks(np.array([1, 2], np.int32), "cpu").dtype == jnp.int32
    assert FRAMEWORK.marks(np.array([True]), "cpu").dtype == jnp.bool_


def test_shapes():
    array = FRAMEWORK.place(np.arange(6.0).reshape(1, 2, 3), "float32", "cpu")
    assert FRAMEWORK.swapped(array, 1, 2).shape == (1, 3, 2)
    assert FRAMEWORK.expanded(array, (4, 2, 3)).shape == (4, 2, 3)
    assert FRAMEWORK.tiled(array, 3).shape == (3, 2, 3)
    assert np.array_equal(FRAMEWORK.tiled(array, 3)[2], array[0])


def test_what_jax_does_not_have():
    array = FRAMEWORK.place(np.zeros(3), "float32", "cpu")
    assert FRAMEWORK.layouts() == ()
    with pytest.raises(ValueError, match="strided"):
        FRAMEWORK.place(np.zeros(3), "float32", "cpu", layout="strided")
    assert FRAMEWORK.overwrite(array, array) is None
    with FRAMEWORK.poisoned("cpu") as can_be:
        assert can_be is False


def test_gradients_of_the_wanted_inputs():
    inputs = tuple(FRAMEWORK.place(np.full(2, x), "float32", "cpu") for x in (2.0, 3.0, 5.0))
    sent = FRAMEWORK.place(np.array([1.0, 10.0]), "float32", "cpu")
    out, grads = FRAMEWORK.gradients(lambda q, k, v: q * k * v, inputs, sent)
    assert np.array_equal(out, [30, 30])
    assert [float(g[1]) for g in grads] == [150, 100, 60]
    _, (dq, dk, dv) = FRAMEWORK.gradients(
        lambda q, k, v: q * k * v, inputs, sent, wanted=(False, False, True)
    )
    assert dq is None and dk is None and np.array_equal(dv, [6, 60])


def test_what_is_no_array_has_no_gradients():
    inputs = tuple(FRAMEWORK.place(np.ones(2), "float32", "cpu") for _ in range(3))
    out, grads = FRAMEWORK.gradients(lambda q, k, v: (q, k), inputs, inputs[0])
    assert isinstance(out, tuple) and grads == (None, None, None)


def test_synchronize_waits_for_what_came_before():
    """Also for work whose result nobody holds, so it cannot be waited for by its result."""

    @jax.jit
    def long(x):
        return jax.lax.fori_loop(0, 20, lambda _, y: (y @ x) / 512, x)

    x = FRAMEWORK.place(np.ones((512, 512)), "float32", "cpu")
    long(x).block_until_ready()
    FRAMEWORK.synchronize("cpu")
    held = [long(x) for _ in range(4)]
    FRAMEWORK.synchronize("cpu")
    assert all(array.is_ready() for array in held)


SCAN = '''"""Online softmax over blocks of keys by lax.scan, as written: not jitted."""

import jax
import jax.numpy as jnp

FRAMEWORK = "jax"
BLOCK = 32


def attention(q, k, v, *, causal: bool, scale: float):
    batch, heads, queries, dim = q.shape
    kv_heads, keys = k.shape[1:3]
    group = heads // kv_heads
    exact = jax.lax.Precision.HIGHEST
    k, v = (jnp.repeat(x, group, axis=1).astype(jnp.float32) for x in (k, v))
    pad = -keys % BLOCK
    k, v = (jnp.pad(x, ((0, 0), (0, 0), (0, pad), (0, 0))) for x in (k, v))
    blocks = (keys + pad) // BLOCK
    k, v = (x.reshape(batch, heads, blocks, BLOCK, dim).transpose(2, 0, 1, 3, 4) for x in (k, v))
    rows = jnp.arange(queries)[:, None] + keys - queries

    def step(carry, part):
        high, total, acc = carry
        index, kb, vb = part
        s = scale * jnp.einsum("bhmd,bhnd->bhmn", q.astype(jnp.float32), kb, precision=exact)
        n = index * BLOCK + jnp.arange(BLOCK)
        seen = jnp.broadcast_to(n < keys, (queries, BLOCK))
        if causal:
            seen = seen & (n <= rows)
        s = jnp.where(seen, s, -jnp.inf)
        new = jnp.maximum(high, s.max(-1))
        safe = jnp.where(jnp.isinf(new), 0.0, new)
        p = jnp.where(seen, jnp.exp(s - safe[..., None]), 0.0)
        known = jnp.where(jnp.isinf(high), 0.0, high)
        alpha = jnp.where(jnp.isinf(high), 0.0, jnp.exp(known - safe))
        total = total * alpha + p.sum(-1)
        acc = acc * alpha[..., None] + jnp.einsum("bhmn,bhnd->bhmd", p, vb, precision=exact)
        return (new, total, acc), None

    start = (
        jnp.full((batch, heads, queries), -jnp.inf),
        jnp.zeros((batch, heads, queries)),
        jnp.zeros((batch, heads, queries, dim)),
    )
    (_, total, acc), _ = jax.lax.scan(step, start, (jnp.arange(blocks), k, v))
    return (acc / jnp.where(total == 0, 1.0, total)[..., None]).astype(q.dtype)
'''


@pytest.mark.slow
def test_a_function_that_compiles_at_every_call_is_told_about_jit(tmp_path):
    """Online softmax by lax.scan, as written: each call compiled anew, so no second call was the
    quicker and no shape was shared. A check took 347 CPU seconds, and 81 with jax.jit."""
    file = tmp_path / "scan_jax.py"
    file.write_text(SCAN)
    verdict = assay.check(str(file), probes=["batch"], quick=True, dtypes=("float32",))
    assert verdict, str(verdict)
    assert "it compiles anew at each call" in verdict.conditions
    assert "attention = jax.jit(attention" in verdict.conditions
    assert "it compiles for each shape" in verdict.conditions
