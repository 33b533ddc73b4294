"""Bootstrap intervals of paired rounds: coverage, and the same answer every time."""

import numpy as np

from assay.laws.pairs import interval, resampled_medians


def test_equal_subjects_are_called_different_about_as_often_as_the_interval_says():
    """Of 400 comparisons of equal subjects, 95 % intervals exclude zero in about 20."""
    rng = np.random.default_rng(0)
    for rounds in (6, 20, 51):
        alarms = 0
        for _ in range(400):
            low, high = interval(resampled_medians([rng.normal(size=rounds)]))
            alarms += low > 0 or high < 0
        assert alarms <= 36, f"{alarms} of 400 with {rounds} rounds"


def test_a_resampled_median_is_that_of_a_sample_of_the_rounds():
    values = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    drawn = resampled_medians([values])[:, 0]
    assert set(drawn) <= set(values)
    low, high = interval(drawn)
    assert low <= 4.0 <= high and abs(np.median(drawn) - 4.0) < 1e-12


def test_columns_are_drawn_apart_and_repeatably():
    values = np.random.default_rng(1).normal(size=30)
    once, again = resampled_medians([values, values]), resampled_medians([values, values])
    assert np.array_equal(once, again)
    assert abs(np.corrcoef(once.T)[0, 1]) < 0.1
