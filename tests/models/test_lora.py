"""Adapters: their equations, their scale, and the oddity of the output projection."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")
pytest.importorskip("flax")

from gemma_cases import (
    BATCH,
    LENGTH,
    RANK,
    adapters,
    attention,
    close,
    compiled,
    experts,
    filled,
    normal,
    positions,
    some_mask,
)

from assay.models.gemma import lora

OUTPUT = "BTNH,NHD->BTD"


def made(equation, shape, x_shape, config):
    module = lora.Einsum(shape, lora_config=config)
    x = normal(x_shape, seed=1)
    shapes = jax.eval_shape(lambda key: module.init(key, equation, x), jax.random.key(0))
    held = filled(shapes)
    return x, held["params"], compiled(module.apply, static_argnums=1)(held, equation, x)


@pytest.mark.parametrize("rslora", [False, True])
def test_the_update_is_a_product_of_two_thin_weights(rslora):
    """Per head: w plus scale times A B, on the axes that the projections share."""
    config = adapters(True, rslora=rslora)
    assert config.scaling_value == pytest.approx(3 / np.sqrt(2) if rslora else 1.5)
    x, held, actual = made("BTD,NDH->BTNH", (4, 6, 5), (2, 3, 6), config)
    assert held["lora_a"].shape == (4, 6, RANK) and held["lora_b"].shape == (4, RANK, 5)
    weight = held["w"] + config.scaling_value * (held["lora_a"] @ held["lora_b"])
    close(actual, np.einsum("BTD,NDH->BTNH", x, weight))


def test_the_heads_of_the_output_projection_share_one_update():
    """A keeps its heads, B is summed over them: dW[n] = scale A[n] (sum over m of B[m])."""
    config = adapters(True)
    x, held, actual = made(OUTPUT, (4, 5, 6), (2, 3, 4, 5), config)
    assert held["lora_a"].shape == (4, 5, RANK) and held["lora_b"].shape == (4, RANK, 6)
    update = np.einsum("nhr,rd->nhd", held["lora_a"], held["lora_b"].sum(axis=0))
    close(actual, np.einsum(OUTPUT, x, held["w"] + config.scaling_value * update))
    usual = held["w"] + config.scaling_value * held["lora_a"] @ held["lora_b"]
    assert not np.allclose(actual, np.einsum(OUTPUT, x, usual), atol=1e-2)


def test_other_axes_can_be_adapted():
    """Here A reads the width and B writes the heads, for each place in a head."""
    config = adapters(True, axes=(-2, 0))
    x, held, actual = made("BTD,NDH->BTNH", (4, 6, 5), (2, 3, 6), config)
    assert held["lora_a"].shape == (RANK, 6, 5) and held["lora_b"].shape == (4, RANK, 5)
    update = np.einsum("rdh,nrh->ndh", held["lora_a"], held["lora_b"])
    close(actual, np.einsum("BTD,NDH->BTNH", x, held["w"] + config.scaling_value * update))


def test_equations():
    assert lora.lora_equations("BSD,3KDH->3BSKH", adapters(True)) == (
        "BSD,3KDL->3BSKL",
        "3BSKL,3KLH->3BSKH",
    )
    assert lora.lora_equations(OUTPUT, adapters(True, label="R")) == (
        "BTNH,NHR->BTR",
        "BTR,NRD->BTD",
    )


@pytest.mark.parametrize(
    ("equation", "label", "message"),
    [
        ("BTL,LH->BTH", "L", "uses L, which is kept"),
        ("BTL,LH->BTH", "R", "uses L, which is kept"),
        ("BTR,RH->BTH", "R", "uses R, which is kept"),
        ("BTD,DH", "L", "not of the form"),
        ("BTD->BT", "L", "not of the form"),
    ],
)
def test_equations_that_cannot_be_adapted_are_refused(equation, label, message):
    with pytest.raises(ValueError, match=message):
        lora.lora_equations(equation, adapters(True, label=label))


def test_adapters_whose_second_weight_is_zero_change_nothing():
    _, parameters, call = attention(with_lora=True)
    rest = (experts(), positions(0, LENGTH), some_mask(LENGTH, LENGTH), None)
    parts = parameters["params"].items()
    shut = {n: {**held, "lora_b": np.zeros_like(held["lora_b"])} for n, held in parts}
    actual = call({"params": shut}, *rest)
    plain = attention().call({"params": {n: {"w": held["w"]} for n, held in parts}}, *rest)
    jax.tree.map(close, actual, plain)
    assert not np.allclose(call(parameters, *rest)[0][0], plain[0][0], atol=1e-2)


@pytest.mark.parametrize("with_lora", [False, True], ids=["plain", "lora"])
def test_the_mlp_is_gated_and_does_not_scale_its_adapters(with_lora):
    module = lora.FeedForward(features=6, hidden_dim=10, lora_config=adapters(with_lora))
    x = normal((BATCH, 3, 6), seed=1)
    parameters = filled(jax.eval_shape(module.init, jax.random.key(0), x))
    held = parameters["params"]

    def weight(name):
        if not with_lora:
            return held[name]
        return held[name] + held[f"{name}_lora_a"] @ held[f"{name}_lora_b"]

    gate, up = weight("gating_einsum")
    gate = x @ gate
    gelu = 0.5 * gate * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)))
    close(compiled(module.apply)(parameters, x), (gelu * (x @ up)) @ weight("linear"))


def test_config_is_replaced_not_changed():
    config = lora.LoRAConfig(rank=4)
    assert (config.alpha, config.axes, config.label, config.rslora) == (1.0, (-2, -1), "L", False)
    assert config.replace(alpha=4.0).scaling_value == 1.0 and config.scaling_value == 0.25
