"""Choice of calls in every form that it can be written in, and refusals."""

import pytest

from assay.captures.recording.options import CaptureOptions, number_set
from assay.errors import BadInput

SITE = "model.layers.3.self_attn"


def wanted(**choices):
    options = CaptureOptions(**choices)
    return [(s, n) for s in range(100) for n in range(12) if options.wants(s, n, SITE)]


def test_with_nothing_given_every_call_is_wanted():
    assert len(wanted()) == 1200


def test_one_layer_in_four_every_twentieth_step():
    calls = wanted(every=20, layers="::4")
    assert calls == [(s, n) for s in (0, 20, 40, 60, 80) for n in (0, 4, 8)]


def test_all_conditions_must_hold():
    calls = wanted(every=2, first=7, steps="2:50", layers=[1, 3])
    assert calls == [(2, 1), (2, 3), (4, 1), (4, 3), (6, 1), (6, 3)]


def test_sites_and_predicate():
    assert wanted(sites="*.mlp, *.self_attn", first=1)
    assert not wanted(sites="*.mlp")
    assert not wanted(sites="*.Self_attn")
    calls = wanted(predicate=lambda step, layer, site: step == layer and "3" in site)
    assert calls == [(n, n) for n in range(12)]


@pytest.mark.parametrize(
    ("value", "members", "text"),
    [
        ("0:4", [0, 1, 2, 3], "0:4"),
        ("0,3,7", [0, 3, 7], "0,3,7"),
        ("0:2, 8", [0, 1, 8], "0:2,8"),
        ("3:", range(3, 100), "3:"),
        ("::30", [0, 30, 60, 90], "0::30"),
        (5, [5], "5"),
        ([2, 1], [1, 2], "2,1"),
        (range(0, 10, 5), [0, 5], "0:10:5"),
    ],
)
def test_numbers_in_every_form(value, members, text):
    numbers = number_set(value, "layers")
    assert [n for n in range(100) if n in numbers] == list(members) == numbers.below(100)
    assert str(numbers) == text
    assert number_set(str(numbers), "layers").below(100) == list(members)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"layers": "a"}, "layers 'a'"),
        ({"layers": "4:2"}, "`to` itself is left out"),
        ({"layers": "1:2:3:4"}, "not a whole number"),
        ({"layers": "-1"}, "not a whole number"),
        ({"layers": ""}, "names no number"),
        ({"layers": []}, "names no number"),
        ({"layers": [0.5]}, "0.5"),
        ({"layers": "0:4:0"}, "names no number"),
        ({"steps": [True]}, "True"),
        ({"every": 0}, "every 0"),
        ({"first": -1}, "first -1"),
        ({"max_bytes": 0}, "max_bytes 0"),
        ({"max_records": 1.5}, "max_records 1.5"),
        ({"queue_bytes": None}, "queue_bytes None"),
        ({"mode": "all"}, "full, stats, shapes"),
        ({"form": "pickle"}, "safetensors, npz"),
        ({"wait_s": -1}, "wait_s -1"),
        ({"wait_s": float("inf")}, "wait_s inf"),
        ({"wait_s": float("nan")}, "wait_s nan"),
        ({"positions": "5:5"}, "positions"),
        ({"positions": (3,)}, "positions"),
        ({"positions": "a:b"}, "positions"),
        ({"sites": ","}, "no pattern"),
        ({"predicate": "x"}, "function"),
    ],
)
def test_what_is_refused(choices, message):
    with pytest.raises(BadInput, match=message.replace("(", r"\(")):
        CaptureOptions(**choices)


def test_options_are_told_in_plain_values():
    options = CaptureOptions(
        every=20, layers="::4", positions="0:8", mode="stats", predicate=lambda *_: True
    )
    described = options.described()
    assert (
        described["layers"] == "0::4"
        and described["positions"] == "0:8"
        and described["every"] == 20
    )
    assert "lambda" in described["predicate"]
    assert all(isinstance(value, str | int | float | bool) for value in described.values())
    assert CaptureOptions().described() == {}
