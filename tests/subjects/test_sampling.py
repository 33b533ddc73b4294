"""A sample of rows and keys is the reference's own, and an error in it is seen and located."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from assay import host
from assay.captures.inputs import make
from assay.correctness import judge
from assay.subjects import expected as expectation
from assay.subjects import sampling
from assay.subjects.expected import expected
from assay.subjects.sequence import bind
from assay.workloads.spec import WorkloadSpec, parse

PLAIN = WorkloadSpec(
    batch=1, heads=1, kv_heads=1, query_length=1, key_length=1, head_dim=16, dtype="float32",
    causal=True, seed=0,
)  # fmt: skip
NAMES = [
    "b2_h4_kv2_q37_k65_d16_causal_float16",
    "b2_h4_kv1_q65_k37_d16_causal_bfloat16_padded",
    "b2_h4_kv4_q65_k37_d16_full_float32_masked",
    "b1_h2_kv1_q130_k90_d16_causal_float32_packed3",
    "b1_h2_kv1_q64_k64_d16_causal_float32_w5",
    "b1_h1_kv1_q1_k1_d16_full_float32",
]


@pytest.mark.parametrize("name", NAMES)
def test_the_sample_is_what_the_whole_reference_has_there(name):
    workload = make(parse(name, defaults=PLAIN))
    whole, some = expected(workload), sampling.sample(workload)
    for tensor in ("out", "lse", "dq", "dk", "dv"):
        right = getattr(whole.result, tensor)[some.index[tensor]]
        np.testing.assert_allclose(getattr(some.result, tensor), right, atol=1e-14)
        budget = whole.allowed[tensor].largest[some.index[tensor]]
        assert (some.allowed[tensor].largest < 2 * budget).all()


@pytest.fixture
def sampled(monkeypatch):
    """Every workload counts as large."""
    monkeypatch.setattr(expectation, "_MOST_SCORES", 0)
    yield


@pytest.mark.parametrize("name", ["eager", "sdpa", "flash2_torch"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_sound_implementations_pass_by_sample(sampled, name, dtype):
    workload = make(parse(f"b3_h4_kv2_q70_k90_d16_causal_{dtype}", defaults=PLAIN))
    call = bind(name, workload, host=host.inspect(), device="cpu")
    assert all(comparison.holds for comparison in judge.compare_all(call))


def test_an_error_is_seen_and_its_place_is_that_in_the_whole_tensor(sampled):
    workload = make(parse("b3_h4_kv2_q70_k90_d16_causal_float32", defaults=PLAIN))
    call = bind("eager", workload, host=host.inspect(), device="cpu")

    def wrong(*inputs, **options):
        out = call.function(*inputs, **options).clone()
        out[-1, -1, -1] += 1.0  # the last row of all, which is always looked at
        return out

    comparison = judge.compare("out", replace(call, function=wrong)(), call)
    assert not comparison.holds and "(2, 3, 69, " in comparison.problem


def test_what_is_not_finite_is_seen_anywhere(sampled):
    workload = make(parse("b3_h4_kv2_q70_k90_d16_causal_float32", defaults=PLAIN))
    call = bind("eager", workload, host=host.inspect(), device="cpu")
    out = call().clone()
    out[1, 2, 33, 5] = float("nan")
    assert "not finite" in judge.compare("out", out, call).problem
