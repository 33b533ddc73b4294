"""The exchangeable cores: against JAX's own attention, and against each other on every row."""

from functools import partial

import numpy as np
import pytest

jax = pytest.importorskip("jax")
pytest.importorskip("flax")

import jax.numpy as jnp
from gemma_cases import BATCH, close, compiled, core_named, normal, some_mask

from assay.models.gemma.attention import MixtureAttention
from assay.models.gemma.config import stock_config
from assay.models.gemma.fast.attention import AutoregressiveAttention
from assay.models.gemma.fast.model import AutoregressiveModel
from assay.models.gemma.model import MixtureModel

QUERIES, KEYS, DIM = 5, 9, 16
GPU = pytest.mark.skipif(jax.default_backend() != "gpu", reason="cuDNN needs an NVIDIA GPU")
SLOW = pytest.mark.slow
FLASH = ["pallas", pytest.param("cudnn", marks=GPU)]


def inputs(dtype="float32", *, kv_heads=2, kv_dtype=None):
    """q, k, v and a mask with one query that sees nothing."""
    held = (BATCH, KEYS, kv_heads, DIM)
    q = normal((BATCH, QUERIES, 4, DIM), seed=1, dtype=dtype) * jnp.asarray(0.25, dtype)
    k, v = (normal(held, seed=seed, dtype=kv_dtype or dtype) for seed in (2, 3))
    mask = some_mask(QUERIES, KEYS)
    mask[1, 0, 3] = False
    return q, k, v, mask


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kv_heads", [2, *(pytest.param(n, marks=SLOW) for n in (4, 1))])
def test_the_xla_core_is_what_jax_computes(kv_heads, dtype):
    """The scale is a power of two, so that it may come before or after the product."""
    q, k, v, mask = inputs(dtype, kv_heads=kv_heads)
    actual = compiled(partial(core_named("xla"), dtype=jnp.dtype(dtype)))(q, k, v, mask)
    oracle = partial(jax.nn.dot_product_attention, implementation="xla", scale=1.0)
    wanted = compiled(lambda q, k, v, mask: oracle(q, k, v, mask=mask))(q, k, v, mask)
    assert actual.dtype == wanted.dtype == dtype
    close(actual, wanted, tolerance=1e-5 if dtype == "float32" else 0.0)


@pytest.mark.parametrize(
    ("dtype", "q_dtype", "kv_dtype"),
    [
        ("float32", "float32", "float32"),
        pytest.param("bfloat16", "bfloat16", "bfloat16", marks=SLOW),
        pytest.param("bfloat16", "float32", "bfloat16", marks=SLOW),  # gemma_fast in bfloat16
        pytest.param("bfloat16", "float32", "float32", marks=SLOW),  # and its cache not
        pytest.param("float32", "float32", "bfloat16", marks=SLOW),
    ],
)
@pytest.mark.parametrize("name", FLASH)
def test_cores_agree_on_every_row(name, dtype, q_dtype, kv_dtype):
    """Output and gradients, the query that sees nothing among them."""
    if name == "cudnn" and "float32" in (dtype, kv_dtype):
        pytest.skip("cuDNN computes in half precision")
    q, k, v, mask = inputs(q_dtype, kv_dtype=kv_dtype)
    direction = normal(q.shape, seed=4)

    def loss(core, q, k, v):
        out = core_named(core)(q, k, v, mask, dtype=jnp.dtype(dtype))
        return jnp.sum(out.astype(jnp.float32) * direction), out

    def value(core):
        return compiled(jax.grad(partial(loss, core), argnums=(0, 1, 2), has_aux=True))(q, k, v)

    (grads, out), (wanted_grads, wanted) = value(name), value("xla")
    assert out.dtype == wanted.dtype == jnp.promote_types(dtype, kv_dtype)
    half = "bfloat16" in (dtype, q_dtype, kv_dtype)
    close(out, wanted, tolerance=2**-6 if half else 1e-5)
    for grad, wanted_grad in zip(grads, wanted_grads, strict=True):
        largest = float(np.abs(np.asarray(wanted_grad, np.float32)).max())
        close(grad, wanted_grad, tolerance=largest * (2e-2 if half else 1e-5))


@pytest.mark.parametrize("name", ["xla", *FLASH])
def test_a_blind_row_is_the_mean_of_all_values(name):
    dtype = "bfloat16" if name == "cudnn" else "float32"
    q, k, v, mask = inputs(dtype)
    out = compiled(partial(core_named(name), dtype=jnp.dtype(dtype)))(q, k, v, mask)
    mean = np.repeat(v.astype(np.float32)[1].mean(axis=0), 2, axis=0)
    close(np.asarray(out)[1, 3], mean, tolerance=1e-6 if dtype == "float32" else 2**-7)


@pytest.mark.parametrize("name", ["xla", "pallas"])
def test_a_nan_in_a_hidden_value_is_not_swallowed(name):
    """It marks a cache that ran over its end; only the row and the head that hold it are hit."""
    q, k, v, mask = inputs()
    mask[..., KEYS - 1] = False
    v[0, KEYS - 1, 1] = np.nan
    out = np.asarray(compiled(partial(core_named(name), dtype=jnp.dtype("float32")))(q, k, v, mask))
    assert np.isnan(out[0, :, 2:]).all()
    assert np.isfinite(out[0, :, :2]).all() and np.isfinite(out[1]).all()


def test_auto_is_a_core_and_others_are_refused():
    settings = {
        "variant": "x", "width": 8, "depth": 1, "mlp_dim": 8, "num_heads": 1, "num_kv_heads": 1,
        "head_dim": 8, "norm_eps": 1e-6, "vocab_size": 8, "embed_dtype": "float32",
    }  # fmt: skip
    config = stock_config("dummy")
    for make in (
        partial(MixtureAttention, [config]),
        partial(MixtureModel, [config], "float32"),
        partial(AutoregressiveAttention, 4, 2, 8, 8),
        partial(AutoregressiveModel, **settings),
    ):
        for core in ("xla", "cudnn", "pallas", "auto"):
            assert make(core=core).core == core
        assert make().core == "auto"
        with pytest.raises(ValueError, match=r"'flash'; choose xla, cudnn, pallas or auto"):
            make(core="flash")


def test_cudnn_refuses_float32_in_words():
    q, k, v, mask = inputs()
    with pytest.raises(ValueError, match=r"half precision.*core='xla' or 'pallas'"):
        core_named("cudnn")(q, k, v, mask, dtype=jnp.dtype("float32"))
