"""The nonnegative polynomial: known coefficients come back, and none is ever negative."""

import numpy as np
import pytest
from law_records import LENGTHS

from assay.laws.terms import fit


def curve(c2, c1, c0, lengths=LENGTHS):
    return [(s, c2 * s**2 + c1 * s + c0) for s in lengths]


@pytest.mark.parametrize("wanted", [(192.0, 8192.0, 3e6), (0.0, 8320.0, 0.0), (6.0, 0.0, 5e5)])
def test_coefficients_come_back(wanted):
    found = fit(curve(*wanted))
    assert [found.coefficients.get(power, 0.0) for power in (2, 1, 0)] == pytest.approx(
        list(wanted), rel=1e-6, abs=1e-6
    )
    assert found.spread == pytest.approx(0.0, abs=1e-9)
    assert sum(found.shares(4096).values()) == pytest.approx(1.0)


def test_a_falling_curve_gets_no_negative_term():
    found = fit([(256, 4.0), (512, 3.0), (1024, 2.0), (2048, 1.5)])
    assert set(found.coefficients) == {0} and found.coefficients[0] > 0


def test_noise_gives_an_error_that_covers_the_truth():
    """Of 200 noisy curves, the 95 % interval at twice the length misses the truth in few."""
    rng = np.random.default_rng(0)
    truth = 2.0 * 16384**2 + 300 * 16384
    missed = 0
    for _ in range(200):
        points = [(s, y * (1 + 0.02 * rng.standard_normal())) for s, y in curve(2.0, 300.0, 0.0)]
        found = fit(points)
        missed += abs(found.at(16384) - truth) > found.error(16384)
    assert missed <= 20


def test_as_many_terms_as_points_have_no_known_error():
    found = fit(curve(2.0, 300.0, 4e4, lengths=(256, 512, 1024)))
    assert found.spread is None and found.error(4096) is None
    assert found.at(4096) == pytest.approx(2.0 * 4096**2 + 300 * 4096 + 4e4)


def test_too_few_points_or_a_zero_are_not_fitted():
    assert fit([(256, 1.0), (512, 2.0)]) is None
    assert fit([(256, 0.0), (512, 2.0), (1024, 4.0)]) is None


def test_slope_is_the_derivative():
    found = fit(curve(2.0, 300.0, 4e4))
    assert found.slope(1000.0) == pytest.approx(4000.0 + 300.0)
