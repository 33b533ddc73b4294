"""Which calls are wanted, in every form that it can be said in, and what is refused."""

import pytest

from assay.captures.recording.options import CaptureOptions, number_set
from assay.errors import BadInput

SITE = "model.layers.3.self_attn"


def wanted(**given):
    options = CaptureOptions(**given)
    return [(s, n) for s in range(100) for n in range(12) if options.wants(s, n, SITE)]


def test_with_nothing_given_every_call_is_wanted():
    assert len(wanted()) == 1200


def test_one_layer_in_four_every_twentieth_step():
    found = wanted(every=20, layers="::4")
    assert found == [(s, n) for s in (0, 20, 40, 60, 80) for n in (0, 4, 8)]


def test_all_conditions_must_hold():
    found = wanted(every=2, first=7, steps="2:50", layers=[1, 3])
    assert found == [(2, 1), (2, 3), (4, 1), (4, 3), (6, 1), (6, 3)]


def test_sites_and_predicate():
    assert wanted(sites="*.mlp, *.self_attn", first=1)
    assert not wanted(sites="*.mlp")
    assert not wanted(sites="*.Self_attn")
    found = wanted(predicate=lambda step, layer, site: step == layer and "3" in site)
    assert found == [(n, n) for n in range(12)]


@pytest.mark.parametrize(
    ("given", "members", "told"),
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
def test_numbers_in_every_form(given, members, told):
    found = number_set(given, "layers")
    assert [n for n in range(100) if n in found] == list(members) == found.below(100)
    assert str(found) == told
    assert number_set(str(found), "layers").below(100) == list(members)


@pytest.mark.parametrize(
    ("given", "message"),
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
def test_what_is_refused(given, message):
    with pytest.raises(BadInput, match=message.replace("(", r"\(")):
        CaptureOptions(**given)


def test_options_are_told_in_plain_values():
    options = CaptureOptions(
        every=20, layers="::4", positions="0:8", mode="stats", predicate=lambda *_: True
    )
    told = options.described()
    assert told["layers"] == "0::4" and told["positions"] == "0:8" and told["every"] == 20
    assert "lambda" in told["predicate"]
    assert all(isinstance(value, str | int | float | bool) for value in told.values())
    assert CaptureOptions().described() == {}
