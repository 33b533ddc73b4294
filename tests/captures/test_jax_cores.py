"""q, k and v of attentions that nobody wrote for a capture: by einsum, by jax.nn, by Flax."""

import pytest

pytest.importorskip("jax")
pytest.importorskip("flax")

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax_models import keys, records, tensors

import assay
from assay.captures.jax import einsum as jax_einsum


@pytest.fixture(autouse=True)
def exact_products():
    """Float32 means float32, on a GPU too."""
    with jax.default_matmul_precision("highest"):
        yield


B, T, S, K, G, D = 2, 3, 5, 2, 3, 4
SIZES = {"b": B, "t": T, "s": S, "k": K, "g": G, "d": D, "B": B, "T": T, "S": S, "H": D}


def drawn(letters, seed):
    shape = [SIZES[letter] for letter in letters]
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.float32)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("btkgd,bskd->bkgts", "bkgts,bskd->btkgd"),  # grouped, length before heads
        ("bktd,bksd->bkts", "bkts,bksd->bktd"),  # heads before length
        ("btkd,bskd->bkts", "bkts,bskd->btkd"),
        ("btgd,bsd->bgts", "bgts,bsd->btgd"),  # one kv head without an axis
        ("b t k d, b s k d -> b k t s", "b k t s, b s k d -> b t k d"),
    ],
)
def test_two_einsums_are_an_attention(first, second):
    left, right = first.replace(" ", "").partition("->")[0].split(",")
    q, k, v = drawn(left, 0), drawn(right, 1), drawn(right, 2)
    scores = jnp.einsum(first, q, k)
    weights = jax.nn.softmax(scores, axis=-1)
    out = jnp.einsum(second, weights, v)
    scored = jax_einsum.scores(first, (q, k), scores)
    tensors = jax_einsum.weighted(scored, second, (weights, v), out)
    assert scored.order == ("BHSD" if first.startswith("bkt") else "BSHD")
    exact = {name: np.asarray(x, np.float64) for name, x in tensors.items()}
    heads = K * G if "kg" in first else G if "tg" in first else K
    assert exact["q"].shape == (B, heads, T, D)
    assert exact["k"].shape == (B, 1 if "tg" in first else K, S, D)
    np.testing.assert_allclose(attended(**exact), exact["out"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "equation",
    [
        "btd,kdh->btkh",  # a projection
        "btd,dh->bth",
        "btkh,khd->btd",  # and one out
        "btd,btd->bt",
        "bkts,bskd->btkd",  # weights and values, not queries and keys
        "btkd,bskd",
    ],
)
def test_other_einsums_are_no_scores(equation):
    sizes = SIZES | {"h": 7}
    left, right = equation.partition("->")[0].split(",")
    first, second = (jnp.ones([sizes[letter] for letter in part]) for part in (left, right))
    assert jax_einsum.scores(equation, (first, second), jnp.einsum(equation, first, second)) is None


class Functional(nn.Module):
    """Calls jax.nn.dot_product_attention in a module that is no attention by name."""

    @nn.compact
    def __call__(self, x):
        q, k, v = (nn.Dense(8, name=name)(x).reshape(*x.shape[:2], 2, 4) for name in "qkv")
        return jax.nn.dot_product_attention(q, k, v, is_causal=True, scale=0.3)


def test_a_call_of_jax_is_seen_in_any_module(tmp_path):
    model, x = Functional(), drawn("btd", 3)
    variables = jax.jit(model.init)(jax.random.key(0), x)
    with assay.capturing(model, tmp_path / "store"):
        jax.jit(jax.grad(lambda v, x: model.apply(v, x).sum()))(variables, x)
    (record,) = records(tmp_path)
    assert record.key.site == "Functional" and record.phase == "train"
    assert record.implementation == "jax.nn.dot_product_attention:default"
    assert record.scalars == {"causal": True, "scale": 0.3, "alignment": "top-left"}
    captured = {name: x.astype(np.float64) for name, x in tensors(tmp_path, "layer=0").items()}
    hidden = np.triu(np.ones((T, T), dtype=bool), 1)
    out = attended(captured["q"] * 0.3, captured["k"], captured["v"], hidden=hidden)
    np.testing.assert_allclose(out, captured["out"], rtol=1e-5, atol=1e-6)


class Stack(nn.Module):
    """Two attentions of Flax, one over the other's output."""

    @nn.compact
    def __call__(self, x, mask):
        for name in ("first", "second"):
            attention = nn.MultiHeadDotProductAttention(num_heads=2, qkv_features=8, name=name)
            x = x + attention(x, mask=mask)
        return x


def test_the_attention_of_flax(tmp_path):
    model, x = Stack(), drawn("btd", 4)
    mask = nn.make_causal_mask(jnp.ones((B, T)))
    variables = jax.jit(model.init)(jax.random.key(0), x, mask)
    with assay.capturing(model, tmp_path / "store", scale=1.0):
        jax.jit(model.apply)(variables, x, mask)
    assert keys(tmp_path) == [(0, 0, 0), (0, 1, 0)]
    assert [record.key.site for record in records(tmp_path)] == ["first", "second"]
    for layer in range(2):
        captured = tensors(tmp_path, f"layer={layer}")
        assert captured["mask"].dtype == bool and captured["mask"].shape == (B, 1, T, T)
        q, k, v = (captured[name].astype(np.float64) for name in "qkv")
        out = attended(q, k, v, hidden=~captured["mask"])
        np.testing.assert_allclose(out, captured["out"], rtol=1e-5, atol=1e-6)
    assert records(tmp_path)[0].scalars["mask_dtype"] == "float32"
    np.testing.assert_array_equal(tensors(tmp_path, "layer=0")["x"], x)


class HiddenAttention(nn.Module):
    """Neither einsum nor jax.nn: its core is not seen, but what it is given and gives is."""

    @nn.compact
    def __call__(self, x, positions, kv_cache=None):
        k = nn.Dense(4, name="k")(x)[:, :, None]
        weights = jax.nn.softmax(x @ x.swapaxes(1, 2))
        return weights @ x, (k, k)


def test_an_attention_whose_core_is_not_seen(tmp_path):
    model, x = HiddenAttention(), drawn("btd", 5)
    positions = jnp.arange(T)[None]
    variables = jax.jit(model.init)(jax.random.key(0), x, positions)
    with assay.capturing(model, tmp_path / "store"):
        jax.jit(model.apply)(variables, x, positions)
    (record,) = records(tmp_path)
    assert set(record.tensors) == {"x", "positions", "k", "v", "layer_out"}
    assert record.tensors["k"].shape == (B, 1, T, 4)
    assert record.implementation is None and "not seen" in record.scalars["core"]


class OuterAttention(nn.Module):
    """An attention made of another, as some libraries have them."""

    @nn.compact
    def __call__(self, x, mask):
        return nn.MultiHeadDotProductAttention(num_heads=2, qkv_features=8, name="self")(
            x, mask=mask
        )


def test_of_attentions_in_each_other_the_inner_is_taken(tmp_path):
    model, x = OuterAttention(), drawn("btd", 6)
    mask = jnp.ones((B, 1, T, T), dtype=bool)
    variables = jax.jit(model.init)(jax.random.key(0), x, mask)
    with assay.capturing(model, tmp_path / "store"):
        jax.jit(model.apply)(variables, x, mask)
    assert [record.key.site for record in records(tmp_path)] == ["self"]


def attended(q, k, v, out=None, hidden=None):
    """Attention in float64."""
    group = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x, group, axis=1) for x in (k, v))
    scores = q @ k.swapaxes(-1, -2)
    if hidden is not None:
        scores = np.where(hidden, -np.inf, scores)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v
