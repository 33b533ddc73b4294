"""Values are compared at the same step alone, and what cannot be compared is said."""

import pytest

from assay.errors import BadInput
from assay.trackers.paired import paired, paired_changes
from assay.trackers.run import TrackerRun, row
from assay.trackers.side_by_side import (
    compared,
    config_differences,
    direction,
    group_values,
    grouped_by,
    pace,
    rate,
)


def run(name="n", config=None, pace_s=1.0, host=None, **metrics):
    """A run whose metrics are given as values by step."""
    steps = sorted({step for points in metrics.values() for step in points})
    rows = tuple(
        row({m: p[step] for m, p in metrics.items() if step in p}, step=step, at=pace_s * step)
        for step in steps
    )
    return TrackerRun(
        source="s", place="p", name=name, history=rows, config=config or {}, host=host
    )


def test_the_last_step_is_one_that_all_have():
    a, b = run(loss={0: 3.0, 10: 2.0, 20: 1.0}), run(loss={0: 3.5, 10: 2.5, 15: 0.1})
    (loss,) = compared([a, b])
    assert (loss.step, loss.steps, loss.last, loss.own_last) == (10, 2, (2.0, 2.5), (20, 15))


def test_the_best_is_looked_for_among_common_steps_and_has_its_step():
    a, b = run(loss={0: 1.0, 10: 0.5, 20: 0.5}), run(loss={0: 0.9, 5: 0.0, 10: 1.0, 20: 1.5})
    (loss,) = compared([a, b])
    assert loss.best == ((0.5, 10), (0.9, 0))


def test_without_a_common_step_nothing_is_compared():
    (loss,) = compared([run(loss={0: 1.0}), run(loss={1: 1.0})])
    assert (loss.step, loss.last, loss.best) == (None, (), ())


@pytest.mark.parametrize(
    "metric, better",
    [
        ("val/loss", "lower"),
        ("eval_accuracy", "higher"),
        ("tokens_per_s", "higher"),
        ("accelerator", None),
        ("gloss", None),
        ("lr", None),
    ],
)
def test_which_way_is_better_is_said_by_whole_words(metric, better):
    assert direction(metric) == better


def test_time_is_over_the_steps_that_all_have():
    a, b = run(loss={0: 1, 10: 1, 20: 1}), run(loss={10: 1, 20: 1, 90: 1}, pace_s=2.0)
    timed = pace([a, b])
    assert (timed.first, timed.last, timed.seconds_per_step) == (10, 20, (1.0, 2.0))
    assert pace([a, run(loss={0: 1})]) is None


def test_tokens_per_second_are_of_steps_until_the_common_one():
    fast = run(tokens_per_s={0: 1.0, 10: 100.0, 20: 110.0, 30: 900.0})
    assert rate(fast, 20) == (100.0, "tokens_per_s") and rate(run(loss={0: 1.0})) is None


def test_groups_have_their_spread_and_one_alone_has_none():
    runs = [run(host=host, loss={0: loss}) for host, loss in (("a", 1.0), ("a", 2.0), (None, 5.0))]
    groups = grouped_by(runs, "host")
    first, second = group_values(compared(runs)[0], groups)
    assert (first.group, first.mean, round(first.spread, 4)) == ("a", 1.5, 0.7071)
    assert (second.group, second.spread) == ("not said", None)


def test_configurations_differ_by_key_and_an_absent_one_counts():
    a, b = run(config={"lr": 1, "x": 2}), run(config={"lr": 1})
    assert config_differences([a, b]) == {"x": (2, None)}


def test_pairs_are_made_by_seed():
    def side(name, loss):
        seeds = (1, 0)
        return [run(f"{name}{s}", {"seed": s}, loss={0: loss + s}) for s in seeds]

    runs = paired(side("before", 1.0), side("after", 2.0))
    assert [each.name for each in runs] == ["before0", "after0", "before1", "after1"]
    (change,) = paired_changes(compared(runs))
    assert change.changes == (100.0, 50.0) and change.change == 75.0
    with pytest.raises(BadInput, match="cannot be paired"):
        paired([run(), run()], [run(), run()])
    with pytest.raises(BadInput, match="seeds before are 0, 1, after 0, 2"):
        paired(side("b", 1.0), [run(config={"seed": s}, loss={0: 1.0}) for s in (0, 2)])
