"""Quantiles of Student's t against printed tables."""

import pytest

from assay.laws.student import quantile_975


@pytest.mark.parametrize(
    ("freedom", "printed"),
    [(1, 12.706), (2, 4.303), (10, 2.228), (20, 2.086), (21, 2.080), (40, 2.021), (120, 1.980)],
)
def test_as_printed(freedom, printed):
    assert quantile_975(freedom) == pytest.approx(printed, abs=5e-4)


def test_the_table_meets_the_expansion_and_falls():
    found = [quantile_975(freedom) for freedom in range(1, 60)]
    assert found == sorted(found, reverse=True)


def test_no_freedom_no_interval():
    with pytest.raises(ValueError, match="at least one"):
        quantile_975(0)
