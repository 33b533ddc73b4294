"""Flax's own attention is replayed as it is captured; others say at once what they do not show."""

import pytest

pytest.importorskip("jax")
pytest.importorskip("flax")

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax_models import Tiny, records, tensors

import assay
from assay.captures.inputs import captured_specs, make, workload_entry
from assay.captures.store import Store
from assay.errors import BadInput

B, T, WIDTH = 2, 5, 8


class FlaxLayer(nn.Module):
    """One attention of Flax."""

    dropout: float = 0.0

    @nn.compact
    def __call__(self, x, mask=None):
        return nn.MultiHeadDotProductAttention(
            num_heads=2,
            qkv_features=WIDTH,
            name="own",
            dropout_rate=self.dropout,
            deterministic=not self.dropout,
        )(x, mask=mask)


class BiasedAttention(nn.Module):
    """The function alone, with a bias that is added to the scores."""

    @nn.compact
    def __call__(self, x, bias):
        q = nn.DenseGeneral((2, WIDTH // 2), name="q")(x)
        return nn.dot_product_attention(q, q, q, bias=bias)


def capture(model, store, *arguments, **options):
    variables = model.init({"params": jax.random.key(0), "dropout": jax.random.key(1)}, *arguments)
    with assay.capturing(model, store, **options):
        jax.jit(lambda *a: model.apply(variables, *a, rngs={"dropout": jax.random.key(2)}))(
            *arguments
        )


def drawn():
    return jnp.asarray(np.random.default_rng(0).standard_normal((B, T, WIDTH)), jnp.float32)


def test_the_attention_of_flax_becomes_a_workload(tmp_path, capfd):
    """It was captured without its scale, which nobody could see from the two einsums."""
    x, store = drawn(), tmp_path / "store"
    capture(FlaxLayer(), store, x, nn.make_causal_mask(jnp.ones((B, T))))
    (record,) = records(tmp_path)
    assert record.scalars["scale"] == 1.0 and record.implementation == "flax.dot_product_attention"
    assert "scale" not in capfd.readouterr().err
    (spec,) = captured_specs(workload_entry(store))
    assert spec.scale == 1.0 and spec.causal
    workload = make(spec)
    scores = workload.q @ workload.k.swapaxes(-1, -2)
    scores = np.where(np.tril(np.ones((T, T), bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    out = weights / weights.sum(axis=-1, keepdims=True) @ workload.v
    np.testing.assert_allclose(out, workload.captured.out, rtol=1e-4, atol=1e-5)


def test_dropout_is_written_down(tmp_path):
    capture(FlaxLayer(dropout=0.5), tmp_path / "store", drawn())
    (record,) = records(tmp_path)
    assert record.scalars["dropout"] == 0.5
    (spec,) = captured_specs(workload_entry(tmp_path / "store"))
    assert make(spec).captured is None, "an output with dropout cannot be repeated"


def test_a_bias_is_added_and_no_mask(tmp_path):
    bias = jnp.full((1, 2, T, T), 0.25)
    capture(BiasedAttention(), tmp_path / "store", drawn(), bias)
    (record,) = records(tmp_path)
    assert record.scalars["scale"] == 1.0
    np.testing.assert_array_equal(tensors(tmp_path, "layer=0")["mask"], bias)


def test_a_scale_that_is_not_seen_is_told_at_once_and_may_be_given_later(tmp_path, capfd):
    store = tmp_path / "store"
    capture(Tiny(depth=2), store, jnp.ones((2, 3, 4)))
    printed = capfd.readouterr().err
    assert printed.count("does not show their scale") == 1 and "assay replay --scale" in printed
    with pytest.raises(BadInput, match=r"--scale 1.0.*0.707107 for one over the root of 2"):
        captured_specs(workload_entry(store))
    specs = captured_specs(workload_entry(store, "layer=1", 0.5))
    assert [spec.scale for spec in specs] == [0.5]
    assert len(captured_specs(workload_entry(store, scale=0.5))) == 2
    for wrong in ("nan", "-1", "0", "inf", "x", "1;scale=2"):
        with pytest.raises(BadInput, match="wanted one number above 0"):
            captured_specs(f"captured:{store}#scale={wrong}")
    assert {r.scalars.get("scale") for r in Store.open(store).manifest().records} == {None}


def test_a_scale_that_is_known_is_not_replaced(tmp_path):
    capture(FlaxLayer(), tmp_path / "store", drawn())
    (spec,) = captured_specs(workload_entry(tmp_path / "store", scale=3.0))
    assert spec.scale == 1.0
