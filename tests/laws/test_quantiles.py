"""Quantiles of Student's t and bounds of Clopper and Pearson against printed ones."""

import pytest

from assay.laws.quantiles import student_975, upper_bound


@pytest.mark.parametrize(
    ("freedom", "printed"),
    [(1, 12.706), (2, 4.303), (10, 2.228), (20, 2.086), (21, 2.080), (40, 2.021), (120, 1.980)],
)
def test_as_printed(freedom, printed):
    assert student_975(freedom) == pytest.approx(printed, abs=5e-4)


def test_the_table_meets_the_expansion_and_falls():
    quantiles = [student_975(freedom) for freedom in range(1, 60)]
    assert quantiles == sorted(quantiles, reverse=True)


def test_no_freedom_no_interval():
    with pytest.raises(ValueError, match="at least one"):
        student_975(0)


@pytest.mark.parametrize(
    ("events", "trials", "bound"),
    [(0, 100, 0.0295), (5, 100, 0.1023), (0, 501, 0.00596), (3, 3, 1)],
)
def test_bounds_are_those_of_clopper_and_pearson(events, trials, bound):
    assert upper_bound(events, trials) == pytest.approx(bound, rel=5e-3)
