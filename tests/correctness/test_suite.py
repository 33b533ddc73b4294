"""Verdicts on right and wrong functions, and the likely cause in words."""

import re
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import assay
from assay.attention.sequence import eager
from assay.captures.inputs import make
from assay.correctness import judge
from assay.correctness.cases import CaseGenerator
from assay.correctness.diagnosis import masks, patterns
from assay.errors import BadInput
from assay.subjects.expected import expected

CASES = CaseGenerator(seed=0, count=10, quick=True, gpu=False)


def masked(q, k, v, scale, seen):
    """Attention with a mask that is given; rows that see nothing are zeros."""
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = scale * (q.float() @ k.float().mT)
    seen = torch.from_numpy(np.broadcast_to(seen, scores.shape).copy())
    weights = scores.masked_fill(~seen, -3e38).softmax(-1).masked_fill(~seen, 0.0)
    return weights.to(v.dtype) @ v


CAUSES = list(masks.misplaced(CASES.spec(query_length=3, key_length=5)))
PICKED = [CAUSES[n] for n in (0, 2, 3, 5, 7)] + [c for c in CAUSES if "64" in c and "128" in c]


@pytest.mark.sampled
@pytest.mark.parametrize(
    "cause",
    [pytest.param(c, marks=() if c in PICKED else pytest.mark.slow) for c in CAUSES],
)
def test_a_misplaced_mask_is_named(cause):
    """Each known bug, made on purpose, is the one that is named, or one that equals it."""

    def attention(q, k, v, *, causal, scale):
        spec = CASES.spec(query_length=q.shape[2], key_length=k.shape[2])
        everything = np.ones((q.shape[2], k.shape[2]), dtype=bool)
        seen = masks.misplaced(spec)[cause] if causal else everything
        return masked(q, k, v, scale, seen)

    verdict = assay.check(attention, probes=["shapes"], dtypes=["float32"])
    assert not verdict
    (failure,) = verdict.failures
    assert failure.cause and cause in failure.cause, failure.cause


def test_a_right_function_holds():
    verdict = assay.check(eager.attention, quick=True, accepts=eager.ACCEPTS)
    assert verdict and str(verdict).startswith("PASS  attention: ")
    assert {"accuracy", "gradients", "causality", "purity"} <= {
        m.metric for m in verdict.measurements
    }
    assay.assert_sound(eager.attention, probes=["accuracy"])


def test_a_pass_says_how_far_it_reached_by_the_cases_that_ran():
    """A check said PASS of kernels that it had called with 16 heads and 130 causal tokens."""
    options = {"quick": True, "backward": False, "dtypes": ["float32"]}
    verdict = assay.check(eager.attention, probes=["causality", "shapes"], **options)
    (reach,) = (m.data for m in verdict.measurements if m.metric == "reach")
    assert reach["tokens"] == {"forward": 1025, "causal": 1025}
    assert reach["heads"] == [[128, 1], [64, 8], [40, 40]] and reach["batch"] == 33
    assert reach["not_reached"] == ["backward", "float16", "bfloat16"]
    words = "not reached: anything larger, backward, float16, bfloat16"
    assert words in str(verdict) and words not in str(verdict).splitlines()[0]


def test_the_reach_of_a_kernel_with_limits_is_within_them():
    def short(spec, host):
        return "no more than 200 tokens" if max(spec.query_length, spec.key_length) > 200 else None

    options = {"quick": True, "backward": False, "dtypes": ["float32"], "supports": short}
    limited = assay.check(eager.attention, probes=["causality"], **options)
    (reach,) = (m.data for m in limited.measurements if m.metric == "reach")
    assert 130 <= reach["tokens"]["causal"] <= 200, "not by what the cases were to be"


def test_a_check_without_time_for_all_its_cases_is_incomplete():
    """One of sixty cases was run, and `if assay.check(fn)` was true."""
    verdict = assay.check(eager.attention, probes=["accuracy", "options"], budget_s=1e-9)
    assert not verdict and len(verdict.incomplete) == 1
    assert str(verdict).startswith("INCOMPLETE  attention: 1 of ")
    with pytest.raises(AssertionError, match="INCOMPLETE"):
        assay.assert_sound(eager.attention, budget_s=1e-9)


def test_what_runs_no_case_is_not_judged():
    def refused(spec, host):
        return "head dimensions of 7 alone"

    options = {"probes": ["accuracy"], "supports": refused}
    verdict = assay.check(eager.attention, **options)
    assert not verdict and not verdict.failures
    text = "NOT RUN  attention: 60 cases unsupported: head dimensions of 7 alone"
    assert str(verdict).splitlines()[0] == text
    with pytest.raises(AssertionError, match="NOT RUN"):
        assay.assert_sound(eager.attention, **options)


def test_a_wrong_function_fails_with_case_and_cause():
    def twice(q, k, v, *, causal, scale):
        return eager.attention(q, k, v, causal=causal, scale=scale * scale)

    verdict = assay.check(twice, probes=["accuracy"])
    assert not verdict and "the scale is applied twice" in str(verdict)
    (failure,) = verdict.failures
    assert "smallest failing case b1_h1_kv1_q1_k2" in failure.reason
    with pytest.raises(AssertionError, match="likely cause: the scale is applied twice"):
        assay.assert_sound(twice, probes=["accuracy"])


def test_what_a_function_declares_is_taken_into_account():
    def detached(q, k, v, *, causal, scale):
        return eager.attention(q, k, v, causal=causal, scale=scale).detach()

    assert not assay.check(detached, probes=["gradients"])
    verdict = assay.check(detached, probes=["gradients", "accuracy"], quick=True, backward=False)
    assert verdict and [m.status for m in verdict.measurements if m.metric == "gradients"] == [
        "unsupported"
    ]

    def bshd(q, k, v, *, causal, scale):
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return eager.attention(q, k, v, causal=causal, scale=scale).transpose(1, 2)

    assert assay.check(bshd, quick=True, probes=["accuracy", "gradients", "strides"], layout="BSHD")


def test_the_cause_is_that_of_the_output_where_a_gradient_is_wrong_elsewhere():
    """Top-left was told as "dk is right except for rounding" beside an output wrong by 7.9e5
    budgets: the costliest failing case had a dk a little beyond its budget."""

    def attention(q, k, v, *, causal, scale):
        seen = np.tril(np.ones((q.shape[2], k.shape[2]), dtype=bool), 0 if causal else k.shape[2])
        out = masked(q, k, v, scale, seen)
        return out if q.shape[2] != k.shape[2] else out + 0.003 * (k - k.detach()).sum()

    (failure,) = assay.check(attention, probes=["stability"]).failures
    assert "aligned top-left" in failure.cause, failure.cause


def test_what_is_no_function_is_refused():
    with pytest.raises(BadInput, match=r"was given 3; wanted a function attention\(q, k, v"):
        assay.check(3)


def test_a_probe_that_is_not_there_is_refused():
    with pytest.raises(BadInput, match="no correctness probe 'speed'"):
        assay.check(eager.attention, probes=["speed"])


@pytest.mark.parametrize(
    ("holds", "words"),
    [
        (lambda s: s.query_length != s.key_length, "where Sq != Sk"),
        (
            lambda s: s.causal and s.query_length > s.key_length,
            "where the mask is causal and Sq > Sk",
        ),
        (lambda s: s.key_length % 64 != 0, "where Sk is not a multiple of 64"),
        (lambda s: s.dtype == "float16", "in float16"),
    ],
)
def test_the_condition_that_failing_cases_share(holds, words):
    specs = CaseGenerator(seed=1, count=1, quick=False, gpu=True).random(150, "conditions")
    failing, passing = [s for s in specs if holds(s)], [s for s in specs if not holds(s)]
    assert patterns.common_condition(failing, passing) == words


def test_of_two_pairs_of_conditions_the_likelier_is_told():
    """Rows that see no key were told as "where Sq != Sk and Sq > 100" of a kernel that compiles."""
    lengths = {(65, 33): False, (97, 31): False, (33, 65): True, (257, 257): True}
    lengths |= {(129, 65): True}
    specs = {
        sizes: CASES.spec(query_length=sizes[0], key_length=sizes[1], causal=causal)
        for sizes, causal in lengths.items()
    }
    blind = specs.pop((129, 65))
    words = patterns.common_condition([blind, replace(blind, seed=7)], list(specs.values()))
    assert words == "where the mask is causal and Sq > Sk"


def test_one_case_that_passes_makes_no_pair_of_conditions():
    """A backward that drops a head of each group passed on one case, of values so large that its
    gradients vanish, and failed "only where head_dim is not a multiple of 64" too."""
    plain = CASES.spec(query_length=33, key_length=33)
    grouped = replace(plain, heads=4, kv_heads=2)
    failing = [replace(grouped, head_dim=dim) for dim in (16, 32, 96)]
    passing = [replace(plain, head_dim=dim) for dim in (16, 32, 64, 128)]
    assert patterns.common_condition(failing, passing) == "where heads are grouped"
    saturated = [replace(grouped, head_dim=64, values="huge", seed=seed) for seed in (1, 2)]
    assert patterns.common_condition(failing, [*passing, saturated[0]]) is None
    words = "where heads are grouped and head_dim is not a multiple of 64"
    assert patterns.common_condition(failing, [*passing, *saturated]) == words


def test_a_condition_is_not_read_into_one_case():
    spec, *others = CASES.random(20, "x")
    assert patterns.common_condition([spec], others) is None


def test_lse_of_blind_rows_must_be_minus_infinity():
    workload = make(CASES.spec(query_length=5, key_length=3))
    right = expected(workload)
    lse = right.result.lse
    assert np.isneginf(lse[:, :, :2]).all()
    assert judge.compare_values("lse", lse, right, "float32").holds
    finite = np.where(np.isneginf(lse), -1e30, lse)
    assert not judge.compare_values("lse", finite, right, "float32").holds


def test_a_small_error_everywhere_is_seen_in_the_mean():
    """No element is beyond its budget, but all lean one way by most of it."""
    workload = make(CASES.spec(length=64, head_dim=64))
    right = expected(workload)
    leaning = right.result.out + 0.9 * right.allowed["out"].largest
    comparison = judge.compare_values("out", leaning, right, "float32")
    assert not comparison.holds and "on average" in comparison.problem


def test_what_the_dtype_cannot_hold_is_not_compared():
    """A gradient beyond float16's range is infinite in float16; that is not the kernel's doing."""
    workload = make(CASES.spec(dtype="float16", length=3))
    right = expected(workload)
    right.result.dq[0, 0, 0, 0] = 1e6
    infinite = right.result.dq.copy()
    infinite[0, 0, 0, 0] = np.inf
    assert judge.compare_values("dq", infinite, right, "float16").holds


def test_a_value_that_must_be_zero_is_told_so():
    """A query that sees no key was "1.21e+38 times what rounding explains"."""

    def ignores_the_mask(q, k, v, *, causal, scale):
        return eager.attention(q, k, v, causal=False, scale=scale)

    case = "b1_h1_kv1_q2_k1_d16_causal_float32"
    verdict = assay.check(ignores_the_mask, probes=["accuracy"], workloads=[case])
    (failure,) = verdict.failures
    assert re.match(r"out must be exactly 0 at \(0, 0, 0, \d+\), is -?\d", failure.reason)
    assert "e+3" not in str(verdict)
