"""Layers through the suite's own probes: the same bits again, numbers that break kernels."""

from dataclasses import replace

import pytest

jax = pytest.importorskip("jax")
pytest.importorskip("flax")

import jax.numpy as jnp

from assay import host
from assay.correctness.probes import determinism, stability
from assay.models import layer
from assay.subjects.layers import bind, bind_loaded, place
from assay.subjects.layers.inputs import make
from assay.workloads.spec import WorkloadSpec

SPEC = WorkloadSpec(
    batch=2, heads=8, kv_heads=1, query_length=19, key_length=19, head_dim=16,
    dtype="bfloat16", causal=True, seed=0,
)  # fmt: skip


@pytest.mark.parametrize("probe", [determinism, stability])
@pytest.mark.parametrize(
    "name", [pytest.param("gemma:xla", marks=pytest.mark.slow), "gemma_fast:xla"]
)
@pytest.mark.sampled
def test_a_sound_layer_passes(name, probe):
    subject = bind(name, make(SPEC), host=host.inspect(), device="cpu")
    (result,) = probe.measure(subject, subject.workload, host.inspect())
    assert result.status == "ok" and 0 <= result.value <= 1, result.reason


def broken(apply):
    good, inputs = layer.load("gemma:xla"), make(SPEC)
    faulty = replace(good, apply=apply)
    return bind_loaded(faulty, inputs, place(inputs, "cpu"), "cpu")


def test_a_softmax_without_its_maximum_is_found():
    """exp of a score in the hundreds is infinite, and infinity over infinity is NaN."""

    def naive(params, x, positions, mask, cache=None, *, core):
        out, cache = layer.load("gemma:xla").apply(params, x, positions, mask, cache, core=core)
        w = params["in"]
        q = jnp.einsum("BTD,NDH->BTNH", x, w["q_einsum"]["w"]).astype("float32")
        k = jnp.einsum("BSD,DH->BSH", x, w["kv_einsum"]["w"][0, 0]).astype("float32")
        weights = jnp.exp(jnp.einsum("BTNH,BSH->BNTS", q, k) / 4).sum((1, 2, 3))
        return out * (weights / weights)[:, None, None].astype(x.dtype), cache

    (result,) = stability.measure(broken(naive), None, host.inspect())
    assert result.status == "failed" and "values of out are not finite" in result.reason


@pytest.mark.slow
def test_a_layer_with_other_bits_each_time_is_found():
    calls = iter(range(1, 100))

    def counting(params, x, positions, mask, cache=None, *, core):
        factor = jax.pure_callback(
            lambda: jnp.bfloat16(next(calls)), jax.ShapeDtypeStruct((), "bfloat16")
        )
        out, cache = layer.load("gemma:xla").apply(params, x, positions, mask, cache, core=core)
        return out + jax.lax.stop_gradient(factor), cache

    (result,) = determinism.measure(broken(counting), make(SPEC), host.inspect())
    assert result.status == "failed" and "differ in their bits" in result.reason


def test_a_core_with_atomics_is_held_to_its_forward_alone():
    assert not layer.load("gemma:cudnn").deterministic_backward
    assert layer.load("gemma_fast:pallas").deterministic_backward
