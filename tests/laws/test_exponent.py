"""Exponents of curves whose exponent is known, and refusals where nothing can be fitted."""

import numpy as np
import pytest
from law_records import LENGTHS, record, workload

from assay.laws.exponent import exponents

PEAK = "forward_peak_bytes"


def curve(value_at, *, lengths=LENGTHS, metric=PEAK, **changes):
    return [record(metric, value_at(s), workload=workload(s), **changes) for s in lengths]


@pytest.mark.parametrize("power", [1.0, 1.5, 2.0])
def test_an_exact_power_comes_back(power):
    (found,) = exponents(curve(lambda s: 7.0 * s**power))
    assert found.value == pytest.approx(power)
    assert found.low == pytest.approx(power) and found.high == pytest.approx(power)
    assert found.lengths == (1024, 2048, 4096, 8192)


def test_eager_and_tiled_memory_are_near_theory():
    """Peaks as the tensors make them: 32 heads of 128 in bfloat16, scores in float32 and bfloat16.

    The linear output and a constant workspace bend the curve by less than 0.05.
    """
    eager = curve(lambda s: 32 * s * s * 6 + 32 * s * 128 * 2 + (1 << 20))
    tiled = curve(lambda s: 32 * s * 128 * 2 + 32 * s * 4, subject="flash2")
    found = {one.subject: one for one in exponents([*eager, *tiled])}
    assert abs(found["eager"].value - 2) < 0.05 and abs(found["flash2"].value - 1) < 0.05
    assert found["eager"].shares["quadratic"] > 0.99
    assert found["flash2"].shares == {"linear": pytest.approx(1.0)}


def test_the_interval_holds_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(200):
        (found,) = exponents(curve(lambda s: s**2 * np.exp(0.03 * rng.standard_normal())))
        inside += found.low <= 2 <= found.high
    assert 180 <= inside <= 199


def test_three_longest_where_lengths_are_sparse():
    (found,) = exponents(curve(lambda s: s * 1.0, lengths=(64, 1024, 16384, 262144)))
    assert found.lengths == (1024, 16384, 262144) and found.value == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("lengths", "words"), [((1024,), "1 length measured"), ((1024, 2048), "2 lengths measured")]
)
def test_too_few_lengths_have_no_exponent(lengths, words):
    (found,) = exponents(curve(lambda s: s * 1.0, lengths=lengths))
    assert found.value is None and found.terms is None and words in found.reason


def test_a_value_of_zero_has_no_exponent():
    (found,) = exponents(curve(lambda s: 0.0))
    assert found.value is None and "no logarithm" in found.reason and found.shares == {}


def test_other_parameters_hosts_and_subjects_are_other_curves():
    plain = curve(lambda s: s * 1.0)
    others = [
        curve(lambda s: s * 1.0, host="another"),
        curve(lambda s: s * 1.0, subject="sdpa"),
        curve(lambda s: s * 1.0, metric="saved_bytes"),
        [record(PEAK, s * 1.0, workload=workload(s, batch=4)) for s in LENGTHS],
        [record(PEAK, s * 1.0, workload=workload(s, causal=False)) for s in LENGTHS],
    ]
    found = exponents([*plain, *(one for other in others for one in other)])
    assert len(found) == 6
    assert len({(one.setting, one.subject, one.metric) for one in found}) == 6
    assert found[0].setting.shape == "b1_h32_kv8_d128_causal_bfloat16"


def test_outcomes_unknowns_and_unequal_lengths_are_no_points():
    oom = record("memory", None, status="oom", reason="no room", workload=workload(16384))
    unknown = record(PEAK, None, reason="no instrument", workload=workload(16384))
    decode = record(PEAK, 5.0, workload=workload(16384, query_length=1))
    (found,) = exponents([*curve(lambda s: s * 1.0), oom, unknown, decode])
    assert found.lengths[-1] == 8192


def test_latency_uses_the_median_of_its_samples():
    timed = [
        record("latency_ms", 1.0, samples=[s**2.0, s**2.0, 1e9], workload=workload(s))
        for s in LENGTHS
    ]
    (found,) = exponents(timed)
    assert found.value == pytest.approx(2.0)
