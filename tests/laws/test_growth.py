"""Exponents and polynomials of known curves, and refusals where nothing can be fitted."""

import re

import numpy as np
import pytest
from law_records import LENGTHS, record, workload

from assay.laws.growth import exponents, fit_polynomial
from assay.reports.law_tables import exponents_table

PEAK = "forward_peak_bytes"


def curve(value_at, *, lengths=LENGTHS, metric=PEAK, **changes):
    return [record(metric, value_at(s), workload=workload(s), **changes) for s in lengths]


@pytest.mark.parametrize("power", [1.0, 1.5, 2.0])
def test_an_exact_power_comes_back(power):
    (exponent,) = exponents(curve(lambda s: 7.0 * s**power))
    assert exponent.value == pytest.approx(power)
    assert exponent.low == pytest.approx(power) and exponent.high == pytest.approx(power)
    assert exponent.lengths == (1024, 2048, 4096, 8192)


def test_eager_and_tiled_memory_are_near_theory():
    """Peaks as the tensors make them: 32 heads of 128 in bfloat16, scores in float32 and bfloat16.

    The linear output and a constant workspace bend the curve by less than 0.05.
    """
    eager = curve(lambda s: 32 * s * s * 6 + 32 * s * 128 * 2 + (1 << 20))
    tiled = curve(lambda s: 32 * s * 128 * 2 + 32 * s * 4, subject="flash2")
    by_subject = {each.subject: each for each in exponents([*eager, *tiled])}
    assert abs(by_subject["eager"].value - 2) < 0.05
    assert abs(by_subject["flash2"].value - 1) < 0.05
    assert by_subject["eager"].shares["quadratic"] > 0.99
    assert by_subject["flash2"].shares == {"linear": pytest.approx(1.0)}


def test_the_interval_holds_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(200):
        (exponent,) = exponents(curve(lambda s: s**2 * np.exp(0.03 * rng.standard_normal())))
        inside += exponent.low <= 2 <= exponent.high
    assert 180 <= inside <= 199


def test_three_longest_where_lengths_are_sparse():
    (exponent,) = exponents(curve(lambda s: s * 1.0, lengths=(64, 1024, 16384, 262144)))
    assert exponent.lengths == (1024, 16384, 262144) and exponent.value == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("lengths", "words"), [((1024,), "1 length measured"), ((1024, 2048), "2 lengths measured")]
)
def test_too_few_lengths_have_no_exponent(lengths, words):
    (exponent,) = exponents(curve(lambda s: s * 1.0, lengths=lengths))
    assert exponent.value is None and exponent.terms is None and words in exponent.reason


def test_a_value_of_zero_has_no_exponent():
    (exponent,) = exponents(curve(lambda s: 0.0))
    assert exponent.value is None and "no logarithm" in exponent.reason and exponent.shares == {}


def test_other_parameters_hosts_and_subjects_are_other_curves():
    plain = curve(lambda s: s * 1.0)
    others = [
        curve(lambda s: s * 1.0, host="another"),
        curve(lambda s: s * 1.0, subject="sdpa"),
        curve(lambda s: s * 1.0, metric="saved_bytes"),
        [record(PEAK, s * 1.0, workload=workload(s, batch=4)) for s in LENGTHS],
        [record(PEAK, s * 1.0, workload=workload(s, causal=False)) for s in LENGTHS],
    ]
    fitted = exponents([*plain, *(record for other in others for record in other)])
    assert len(fitted) == 6
    assert len({(each.setting, each.subject, each.metric) for each in fitted}) == 6
    assert fitted[0].setting.shape == "b1_h32_kv8_d128_causal_bfloat16"


def test_outcomes_unknowns_and_unequal_lengths_are_no_points():
    oom = record("memory", None, status="oom", reason="no room", workload=workload(16384))
    unknown = record(PEAK, None, reason="no instrument", workload=workload(16384))
    decode = record(PEAK, 5.0, workload=workload(16384, query_length=1))
    (exponent,) = exponents([*curve(lambda s: s * 1.0), oom, unknown, decode])
    assert exponent.lengths[-1] == 8192


def test_latency_uses_the_median_of_its_samples():
    timed = [
        record("latency_ms", 1.0, samples=[s**2.0, s**2.0, 1e9], workload=workload(s))
        for s in LENGTHS
    ]
    (exponent,) = exponents(timed)
    assert exponent.value == pytest.approx(2.0)


def points_of(c2, c1, c0, lengths=LENGTHS):
    return [(s, c2 * s**2 + c1 * s + c0) for s in lengths]


@pytest.mark.parametrize("wanted", [(192.0, 8192.0, 3e6), (0.0, 8320.0, 0.0), (6.0, 0.0, 5e5)])
def test_coefficients_come_back(wanted):
    polynomial = fit_polynomial(points_of(*wanted))
    assert [polynomial.coefficients.get(power, 0.0) for power in (2, 1, 0)] == pytest.approx(
        list(wanted), rel=1e-6, abs=1e-6
    )
    assert polynomial.spread == pytest.approx(0.0, abs=1e-9)
    assert sum(polynomial.shares(4096).values()) == pytest.approx(1.0)


def test_a_falling_curve_gets_no_negative_term():
    polynomial = fit_polynomial([(256, 4.0), (512, 3.0), (1024, 2.0), (2048, 1.5)])
    assert set(polynomial.coefficients) == {0} and polynomial.coefficients[0] > 0


def test_noise_gives_an_error_that_covers_the_truth():
    """Of 200 noisy curves, the 95 % interval at twice the length misses the truth in few."""
    rng = np.random.default_rng(0)
    truth = 2.0 * 16384**2 + 300 * 16384
    missed = 0
    for _ in range(200):
        noisy = [(s, y * (1 + 0.02 * rng.standard_normal())) for s, y in points_of(2.0, 300.0, 0.0)]
        polynomial = fit_polynomial(noisy)
        missed += abs(polynomial.at(16384) - truth) > polynomial.error(16384)
    assert missed <= 20


def test_as_many_terms_as_points_have_no_known_error():
    polynomial = fit_polynomial(points_of(2.0, 300.0, 4e4, lengths=(256, 512, 1024)))
    assert polynomial.spread is None and polynomial.error(4096) is None
    assert polynomial.at(4096) == pytest.approx(2.0 * 4096**2 + 300 * 4096 + 4e4)


def test_slope_is_the_derivative():
    polynomial = fit_polynomial(points_of(2.0, 300.0, 4e4))
    assert polynomial.slope(1000.0) == pytest.approx(4000.0 + 300.0)


def test_an_exponent_that_says_little_is_no_law():
    """An interval from -0.7 to 4.5 stood in the table as an exponent of 1.9."""
    (noisy,) = exponents(curve(lambda s: s**2 * (1 + (s == 2048)), lengths=(1024, 2048, 4096)))
    (plain,) = exponents(curve(lambda s: 7.0 * s**2))
    assert plain.is_certain and not noisy.is_certain
    entries = [row[3] for row in exponents_table([noisy, plain]).entries]
    assert re.fullmatch(r"too uncertain \(-?\d+\.\d to \d+\.\d\)", entries[0].text)
    assert entries[1].text == "2.000"
    assert [row[-1].text for row in exponents_table([noisy, plain]).entries] == [
        "—",
        "100% quadratic",
    ]
