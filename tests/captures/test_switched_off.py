"""A line of capture that stays in a program and is switched off leaves no trace."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("flax")

import jax
import torch_models as made
from jax_models import Tiny, inputs, loss, parameters

import assay
from assay.captures.jax import FlaxCapture
from assay.captures.switched_off import NoFlaxCapture, NoTorchCapture
from assay.captures.torch import TorchCapture
from assay.errors import BadInput


@pytest.fixture(params=["argument", "environment"])
def off(request, monkeypatch):
    """Arguments of `capturing` that switch it off."""
    if request.param == "argument":
        return {"enabled": False}
    monkeypatch.setenv("ASSAY_CAPTURE", "0")
    return {"enabled": True}


def public(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


@pytest.mark.parametrize(
    "kind, stand_in", [(TorchCapture, NoTorchCapture), (FlaxCapture, NoFlaxCapture)]
)
def test_everything_that_a_program_can_call_is_there(kind, stand_in):
    assert public(kind) - {"forward_pass"} <= set(dir(stand_in))  # which the interceptors call


def test_torch(off, tmp_path):
    model = made.Plain().eval()
    with assay.capturing(model, tmp_path / "store", every=2, **off) as capture:
        capture.step = 3
        model(made.inputs())
        assert not any(module._forward_hooks for module in model.modules())
    assert capture.report().sentence() == "captured 0 records, 0.0 MB; dropped none"
    assert not (tmp_path / "store").exists()


def test_flax(off, tmp_path):
    model = Tiny()
    variables, x = parameters(model), inputs()
    with assay.capturing(model, tmp_path / "store", **off) as capture, capture.step(1):
        collected = jax.jit(capture.collect(loss(model)))
        value, calls = collected(variables, x)
        capture.save(calls, step=1)
    assert value == jax.jit(loss(model))(variables, x)
    assert capture.report().records == 0 and not (tmp_path / "store").exists()


def test_bad_choices_are_refused_all_the_same(off, tmp_path):
    with pytest.raises(BadInput, match="there is no choice evry"):
        assay.capturing(made.Plain(), tmp_path, evry=2, **off)


def test_a_switch_that_says_neither_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("ASSAY_CAPTURE", "no")
    with pytest.raises(BadInput, match="ASSAY_CAPTURE='no': 0 switches capture off, 1 on"):
        assay.capturing(made.Plain(), tmp_path)
