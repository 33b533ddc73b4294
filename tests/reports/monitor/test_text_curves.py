"""Curves as text: where a point is drawn, what the axes say, and screens of any size."""

import pytest

from assay.reports.monitor.state import LossCurve
from assay.reports.monitor.text_curves import draw

FALLING = LossCurve(name="a", points=[(0, 4.0), (10, 3.0), (20, 2.0)])


def lines(*curves: LossCurve, width=30, height=5, plain=True) -> list[str]:
    drawn = draw(curves, ("red", "blue"), width=width, height=height, plain=plain)
    return [line.plain.rstrip() for line in drawn]


def test_a_straight_line_in_ascii():
    assert lines(FALLING) == [
        "4 |****",
        "  |    ******",
        "3 |          *******",
        "  |                 ******",
        "2 |                       ****",
        "  +---------------------------",
        "   0                   step 20",
    ]


def test_the_same_line_in_braille():
    assert lines(FALLING, plain=False) == [
        "4 │⠉⠒⠤⢄⣀",
        "  │     ⠉⠒⠢⢄⣀",
        "3 │          ⠉⠑⠢⠤⣀⡀",
        "  │               ⠈⠉⠒⠢⠤⣀⡀",
        "2 │                     ⠈⠉⠒⠢⠤⣀",
        "  └───────────────────────────",
        "   0                   step 20",
    ]


def test_curves_that_lie_on_each_other_are_both_seen():
    drawn = lines(FALLING, LossCurve(name="b", points=FALLING.points))
    assert drawn[0] == "4 |*o*o"


def test_each_curve_has_its_own_style():
    high = LossCurve(name="b", points=[(0, 8.0), (20, 7.0)])
    drawn = draw([FALLING, high], ("red", "blue"), width=30, height=6, plain=False)
    assert {str(span.style) for span in drawn[0].spans} == {"blue"}
    assert {str(span.style) for span in drawn[5].spans} == {"red"}


def test_high_losses_of_the_first_steps_are_cut_off_and_that_is_said():
    """A loss of 11 before the first step would press all differences into the last line."""
    points = [(0, 11.0), *((step, 3.0 - step / 1000) for step in range(100, 1001, 100))]
    drawn = lines(LossCurve(name="a", points=points), width=60)
    assert drawn[0].startswith(">2.900 |") and drawn[4].startswith("     2 |")
    assert drawn[1].strip(" |"), "what is left fills the frame"
    cut_off = drawn[0].partition("|")[2]
    assert cut_off.startswith("    "), "nothing is drawn where the curve is above the frame"


def test_every_point_of_many_is_within_the_frame():
    noisy = [(step, 5.0 + (step % 7) * (step % 11) / 20) for step in range(50_000)]
    drawn = lines(LossCurve(name="a", points=noisy), width=80, height=10)
    assert max(map(len, drawn)) <= 80 and len(drawn) == 12
    assert drawn[0].startswith("    8 |*") and drawn[9].startswith("    5 |*")


@pytest.mark.parametrize("points", [[(5, 3.0)], [(5, 3.0), (6, 3.0)], [(0, 0.0)]])
def test_a_flat_curve_has_a_frame(points):
    drawn = lines(LossCurve(name="a", points=points))
    assert any("*" in line for line in drawn[:5]) and len(drawn) == 7


@pytest.mark.parametrize("points", [[], [(0, 1e308), (1, -1e308)]])
def test_what_cannot_be_drawn_is_left_out(points):
    assert lines(LossCurve(name="a", points=points)) == []


def test_one_loss_beyond_all_others_takes_no_time():
    drawn = lines(LossCurve(name="a", points=[(0, 1e300), (500, 3.0), (1000, 2.0)]))
    assert ">3 |" in drawn[0] and " 2 |" in drawn[4]


def test_a_screen_too_narrow_for_curves_still_has_some():
    assert max(map(len, lines(FALLING, width=3))) < 20
