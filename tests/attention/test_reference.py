"""The reference against a loop and finite differences; the budget against planted errors."""

import math

import numpy as np
import pytest

from assay.attention import baseline, reference
from assay.attention.budget import allowances, ulp
from assay.captures.inputs import make
from assay.workloads.spec import WorkloadSpec


def workload(**given):
    usual = {
        "batch": 1, "heads": 4, "kv_heads": 2, "query_length": 5, "key_length": 7,
        "head_dim": 3, "dtype": "float32", "causal": True, "seed": 1,
    }  # fmt: skip
    return make(WorkloadSpec(**{**usual, **given}))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("lengths", [(5, 7), (7, 5), (1, 1)])
def test_the_reference_equals_a_loop_over_queries(lengths, causal):
    """Written out for one query at a time, with the mask and the heads in words."""
    w = workload(query_length=lengths[0], key_length=lengths[1])
    actual = reference.attention(w.q, w.k, w.v, causal=causal, scale=0.7)
    for head in range(4):
        for i in range(lengths[0]):
            last = i + lengths[1] - lengths[0] if causal else lengths[1] - 1
            scores = [
                0.7
                * math.fsum(float(a) * float(b) for a, b in zip(w.q[0, head, i], key, strict=True))
                for key in w.k[0, head // 2, : max(0, last + 1)]
            ]
            if not scores:
                assert (actual.out[0, head, i] == 0).all() and actual.lse[0, head, i] == -math.inf
                continue
            total = math.fsum(map(math.exp, scores))
            wanted = sum(
                math.exp(s) / total * w.v[0, head // 2, j].astype(float)
                for j, s in enumerate(scores)
            )
            assert np.allclose(actual.out[0, head, i], wanted, rtol=1e-12, atol=1e-14)
            assert actual.lse[0, head, i] == pytest.approx(math.log(total), rel=1e-12)


@pytest.mark.parametrize("lengths", [(5, 7), (7, 5)])
def test_gradients_equal_finite_differences(lengths):
    w = workload(query_length=lengths[0], key_length=lengths[1])
    arrays = {"q": w.q.astype(float), "k": w.k.astype(float), "v": w.v.astype(float)}

    def loss(**changed):
        out = reference.attention(**{**arrays, **changed}, causal=True, scale=0.7).out
        return float((out * w.grad_out).sum())

    actual = reference.attention(**arrays, causal=True, scale=0.7, grad_out=w.grad_out)
    for name in ("q", "k", "v"):
        numeric = np.empty_like(arrays[name])
        for index in np.ndindex(*numeric.shape):
            step = np.zeros_like(numeric)
            step[index] = 1e-5
            up, down = arrays[name] + step, arrays[name] - step
            numeric[index] = (loss(**{name: up}) - loss(**{name: down})) / 2e-5
        assert np.allclose(numeric, getattr(actual, f"d{name}"), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_the_baseline_is_near_the_reference(dtype):
    w = workload(query_length=63, key_length=63, head_dim=32, dtype=dtype)
    setting = {"causal": True, "scale": 0.2, "grad_out": w.grad_out}
    exact = reference.attention(w.q, w.k, w.v, **setting)
    plain = baseline.attention(w.q, w.k, w.v, **setting, dtype=dtype)
    unit = {"float32": 2**-23, "float16": 2**-10, "bfloat16": 2**-7}[dtype]
    for name in ("out", "dq", "dk", "dv"):
        wanted = getattr(exact, name)
        error = np.linalg.norm(getattr(plain, name) - wanted) / np.linalg.norm(wanted)
        assert unit / 100 < error < 4 * unit


def test_ulp():
    assert ulp(np.array([1.0, 1.9, 2.0]), "bfloat16").tolist() == [2**-7, 2**-7, 2**-6]
    assert ulp(0.0, "float16") == 2**-24  # the smallest subnormal, not zero
    assert ulp(1.0, "float32") == np.spacing(np.float32(1.0))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "defect",
    [
        lambda w: {"causal": False},  # no mask
        lambda w: {"scale": w.spec.scale * 1.1},  # the wrong scale
        lambda w: {"k": np.roll(w.k, 1, axis=1)},  # the wrong kv head
        lambda w: {"v": np.where(np.arange(w.v.shape[2])[:, None] == 0, 0, w.v)},  # a lost key
    ],
    ids=["mask", "scale", "heads", "lost key"],
)
def test_planted_errors_exceed_the_budget(defect, dtype):
    w = workload(query_length=63, key_length=63, head_dim=32, dtype=dtype)
    arrays = {"q": w.q, "k": w.k, "v": w.v, "grad_out": w.grad_out}
    setting = {"causal": True, "scale": w.spec.scale}
    exact = reference.attention(**arrays, **setting)
    plain = baseline.attention(**arrays, **setting, dtype=dtype)
    allowed = allowances(exact, plain, **arrays, **setting, dtype=dtype)
    wrong = reference.attention(**{**arrays, **setting, **defect(w)})
    assert (np.abs(wrong.out - exact.out) > allowed["out"].largest).any()
    if dtype == "float32":
        assert (np.abs(wrong.out - exact.out) > 20 * allowed["out"].largest).any()


def test_a_baseline_that_overflows_excuses_nothing():
    """Scores beyond float16's 65504 make the plain baseline infinite, not the budget."""
    w = workload(query_length=17, key_length=17, head_dim=32, dtype="float16")
    arrays = {"q": 100 * w.q, "k": 100 * w.k, "v": w.v, "grad_out": w.grad_out}
    setting = {"causal": True, "scale": 1.0}
    exact = reference.attention(**arrays, **setting)
    with np.errstate(invalid="ignore"):
        plain = baseline.attention(**arrays, **setting, dtype="float16")
    assert not np.isfinite(plain.out).all()
    allowed = allowances(exact, plain, **arrays, **setting, dtype="float16")
    assert all(np.isfinite(allowance.largest).all() for allowance in allowed.values())
