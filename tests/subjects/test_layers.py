"""Whole layers as the bench calls them: the float64 reference, both Gemmas against it, refusals."""

from dataclasses import replace

import numpy as np
import pytest

jax = pytest.importorskip("jax")
pytest.importorskip("flax")

import gemma_reference

from assay import host, plugins
from assay.errors import BadInput
from assay.models import layer
from assay.performance import cell
from assay.performance.cell import CellRequest
from assay.performance.rounds import RoundSettings
from assay.records.schema import Measurement
from assay.studies.stages import layers
from assay.subjects.layers import bind, reference
from assay.subjects.layers.inputs import make, work_of
from assay.subjects.outcome import Unsupported
from assay.workloads.spec import WorkloadSpec
from assay.workloads.values import rounded

LENGTH = 19
SPEC = WorkloadSpec(
    batch=2, heads=8, kv_heads=1, query_length=LENGTH, key_length=LENGTH, head_dim=16,
    dtype="float32", causal=True, seed=0,
)  # fmt: skip
EVERYWHERE = np.arange(LENGTH)


def all_rows(inputs):
    batch = range(inputs.spec.batch)
    rows = [reference.rows(inputs, batch=b, places=EVERYWHERE) for b in batch]
    return np.stack([row.out for row in rows]), np.stack([row.grad_x for row in rows])


def test_the_reference_gives_the_output_of_another_one():
    inputs = make(SPEC)
    w = inputs.weights
    named = {
        "q_einsum": {"w": w["q"]},
        "kv_einsum": {"w": np.stack((w["k"], w["v"]))},
        "attn_vec_einsum": {"w": w["out"]},
    }
    mask = np.tril(np.ones((LENGTH, LENGTH), bool))[None, None].repeat(2, axis=0)
    (wanted,), _ = gemma_reference.gemma(named, [inputs.x], EVERYWHERE[None], mask)
    out, _ = all_rows(inputs)
    np.testing.assert_allclose(out, wanted, atol=1e-12)


def test_the_references_gradient_is_the_slope_of_its_output():
    inputs = make(SPEC)
    direction = np.random.default_rng(1).standard_normal(inputs.x.shape)
    wide = replace(inputs, x=inputs.x.astype(np.float64))
    step = 1e-4
    ahead, behind = (all_rows(replace(wide, x=wide.x + s * direction))[0] for s in (step, -step))
    slope = ((ahead - behind) / (2 * step) * inputs.grad_out).sum()
    _, grad_x = all_rows(wide)
    assert (grad_x * direction).sum() == pytest.approx(slope, rel=1e-6)


def test_some_rows_in_blocks_are_those_of_the_whole(monkeypatch):
    inputs = make(SPEC)
    out, grad_x = all_rows(inputs)
    monkeypatch.setattr(reference, "_BLOCK_SCORES", 5 * SPEC.heads * LENGTH)
    places = np.array([0, 7, LENGTH - 1])
    some = reference.rows(inputs, batch=1, places=places)
    np.testing.assert_allclose(some.out, out[1, places], atol=1e-12)
    np.testing.assert_allclose(some.grad_x, grad_x[1, places], atol=1e-12)
    alone = reference.outputs(inputs, batch=1, places=places)
    np.testing.assert_allclose(alone, out[1, places], atol=1e-12)


@pytest.mark.sampled
@pytest.mark.parametrize("heads, kv_heads", [(8, 1), (32, 32), (32, 8)])
@pytest.mark.parametrize("name", ["gemma:xla", "gemma_fast:xla"])
def test_a_layer_is_the_reference(name, heads, kv_heads):
    """So the two agree with each other as well, with weights that both are given."""
    inputs = make(replace(SPEC, heads=heads, kv_heads=kv_heads))
    out, gradients = bind(name, inputs, host=host.inspect(), device="cpu").gradients()
    for array, wanted in zip((out, gradients[0]), all_rows(inputs), strict=True):
        np.testing.assert_allclose(np.asarray(array), wanted, atol=2e-5)


def test_inputs_are_drawn_from_the_seed_and_fit_the_dtype():
    half = replace(SPEC, dtype="bfloat16")
    first, same, other = (make(s).identity for s in (half, replace(half), replace(half, seed=1)))
    assert first == same and first.content != other.content
    assert first.name == half.name
    inputs = make(half)
    for array in (inputs.x, inputs.grad_out, *inputs.weights.values()):
        assert np.array_equal(array, rounded(array, "bfloat16"))
    assert inputs.x.shape == (2, LENGTH, 128)


def test_work_counts_projections_and_attention():
    """One token that sees itself: 4 D H (N + K) and 4 H N operations."""
    spec = replace(SPEC, batch=1, query_length=1, key_length=1, dtype="bfloat16")
    work = work_of(spec)
    projections, attention = 4 * 128 * 16 * 9, 4 * 16 * 8
    assert work.forward_flops == projections + attention
    assert work.backward_flops == 2 * projections + attention * 5 // 2
    weights = 128 * 16 * (8 + 1 + 1 + 8)
    assert work.forward_bytes == 2 * (128 + weights + 128)
    assert work.backward_bytes == 2 * (3 * 128 + 2 * weights)


def test_every_layer_has_every_core():
    cores = ("cudnn", "pallas", "xla")
    assert sorted(layer.names()) == [f"{n}:{c}" for n in ("gemma", "gemma_fast") for c in cores]


REFUSED = {
    "cuDNN needs an NVIDIA GPU": ("gemma:cudnn", SPEC),
    "built for heads 8/1 x 256, 32/32 x 128, .*, not for 8/8 x 16": (
        "gemma:xla",
        replace(SPEC, kv_heads=8),
    ),
    "as many queries as keys": ("gemma_fast:pallas", replace(SPEC, key_length=LENGTH + 1)),
    "a causal mask": ("gemma:xla", replace(SPEC, causal=False)),
    "nothing unusual": ("gemma:xla", replace(SPEC, values="huge")),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_a_layer_refuses_in_words(reason):
    name, spec = REFUSED[reason]
    with pytest.raises(Unsupported, match=reason):
        bind(name, make(spec), host=host.inspect(), device="cpu")


@pytest.mark.parametrize("name", ["gemma", "gemma:nosuch", "nosuch:xla"])
def test_a_name_is_layer_and_core(name):
    with pytest.raises(BadInput):
        layer.load(name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "heads, kv_heads, dtype", [(32, 32, "bfloat16"), (32, 8, "float32")], ids=str
)
def test_heads_of_a_workload_pass_the_gates_and_are_counted(heads, kv_heads, dtype):
    spec = replace(SPEC, heads=heads, kv_heads=kv_heads, dtype=dtype)
    request = CellRequest(
        probes=("accuracy", "gradients", "memory", "work"), workload=spec,
        subjects=("gemma:xla", "gemma_fast:xla"), device="cpu",
        settings=RoundSettings(warmup=0, rounds=0), kind=layer.KIND,
    )  # fmt: skip
    measurements = [m for m in cell.run(request, host.inspect()) if isinstance(m, Measurement)]
    assert {(m.subject, m.metric): m.reason for m in measurements if m.status != "ok"} == {}
    of = {(m.subject, m.metric): m.value for m in measurements}
    for subject in request.subjects:
        assert of[subject, "error_over_budget_out"] <= 1 >= of[subject, "error_over_budget_dx"]
        assert of[subject, "saved_bytes"] > 0
        size = 2 * 2 * kv_heads * 16 * LENGTH * (4 if dtype == "float32" else 2)
        assert of[subject, "kv_cache_bytes"] == size


@pytest.mark.skipif(not host.inspect().accelerators, reason="needs a GPU")
@pytest.mark.parametrize("sizes", [(8, 1, 256), (32, 32, 128), (32, 8, 128)])
def test_every_layer_is_right_on_a_gpu(sizes):
    heads, kv_heads, head_dim = sizes
    spec = replace(
        SPEC, heads=heads, kv_heads=kv_heads, head_dim=head_dim, query_length=256, key_length=256,
        dtype="bfloat16",
    )  # fmt: skip
    request = CellRequest(
        probes=layers.PROBES, workload=spec, subjects=layer.names(), device="cuda:0",
        settings=RoundSettings(warmup=2, rounds=3), kind=layer.KIND,
    )  # fmt: skip
    measurements = [m for m in cell.run(request, host.inspect()) if isinstance(m, Measurement)]
    assert {(m.subject, m.metric): m.reason for m in measurements if m.status != "ok"} == {}
    timed = {m.subject for m in measurements if m.metric == "training_ms"}
    assert timed == set(layer.names())


def test_the_folder_keeps_its_contract():
    for plugin in plugins.listing("layers").values():
        assert plugin.requires == ("jax", "flax")
        assert plugin.literals["CORES"] == ("xla", "cudnn", "pallas")
