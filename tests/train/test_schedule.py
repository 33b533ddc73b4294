"""The learning rate of every step."""

from dataclasses import replace
from itertools import pairwise

import pytest
from small_settings import SETTINGS

from assay.errors import BadInput
from assay.train.schedule import learning_rate

RUN = replace(SETTINGS, steps=100, warmup=10, learning_rate=1.0, least_learning_rate=0.1)


def test_it_rises_in_a_line_and_falls_to_its_least_at_the_last_step() -> None:
    rates = [learning_rate(step, RUN) for step in range(100)]
    assert rates[:10] == pytest.approx([(step + 1) / 10 for step in range(10)])
    assert rates[10] == 1.0 and rates[99] == pytest.approx(0.1)
    assert rates[54] == pytest.approx(0.55, abs=0.01)  # half way
    assert all(a >= b for a, b in pairwise(rates[9:]))
    assert learning_rate(1000, RUN) == pytest.approx(0.1)


def test_without_a_warmup_it_begins_at_its_highest() -> None:
    assert learning_rate(0, replace(RUN, warmup=0)) == 1.0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"evaluate_every": 15}, "evaluate_every 15 is no multiple of report_every 10"),
        ({"save_every": 5}, "save_every 5 is no multiple"),
        ({"batch": 8, "micro_batch": 3}, "8 sequences does not divide into micro-batches of 3"),
        ({"heads": 3}, "does not divide over 3 heads"),
        ({"learning_rate": 1e-6}, "is below its least"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(changes, words) -> None:
    with pytest.raises(BadInput, match=words):
        replace(SETTINGS, **{"report_every": 10, "evaluate_every": 10, "save_every": 10, **changes})


def test_sizes_that_are_no_multiple_of_64_are_pointed_out() -> None:
    (words,) = replace(SETTINGS, width=96, heads=2, length=64).warnings()
    assert words.startswith("no multiple of 64: width 96, head width 48")
    assert not replace(SETTINGS, width=128, heads=2, length=64).warnings()
