"""The generator of cases, and the shrinking of a failing one."""

from dataclasses import replace

import pytest

from assay import plugins
from assay.attention import limits
from assay.correctness.cases import (
    BUDGET_S,
    CASES,
    FEWEST_CASES,
    CaseGenerator,
    cost,
    in_order,
    inside,
)
from assay.correctness.shrink import shrink
from assay.correctness.suite import makes_cases
from assay.errors import BadInput
from assay.instruments.own_time import own_seconds
from assay.studies import kconfig
from assay.workloads.spec import LAYOUTS, OWN_LAYOUTS, VALUES, parse

EXTRAS = frozenset({"lengths", "window", "mask", "cu_seqlens", "lse"})
PROBES = {name: plugin for name, plugin in plugins.listing("probes").items() if makes_cases(plugin)}


def generator(**changes) -> CaseGenerator:
    fields = {"seed": 3, "count": 40, "quick": False, "gpu": False, "accepts": EXTRAS}
    return CaseGenerator(**{**fields, **changes})


def test_the_same_seed_gives_the_same_cases_and_another_seed_others():
    assert generator().random(30, "x") == generator().random(30, "x")
    assert generator().random(30, "x") != generator().random(30, "y")
    assert generator().random(30, "x") != generator(seed=4).random(30, "x")


@pytest.mark.parametrize("gpu", [False, True])
@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("name", PROBES)
def test_every_case_has_a_name_that_says_all_of_it(name, quick, gpu):
    settings = generator(quick=quick, gpu=gpu, configs=("one",))
    specs = plugins.load(PROBES[name]).cases(settings)
    assert len(specs) == len(in_order(specs)[0]) or name != "shapes"
    for spec in specs:
        assert parse(spec.name, defaults=settings.spec(seed=0)) == spec


def test_the_cases_cover_what_they_promise():
    """The lengths, kinds of values and layouts that the documentation names."""
    by_probe = {n: plugins.load(p).cases(generator(configs=("one",))) for n, p in PROBES.items()}
    lengths = {spec.key_length for spec in by_probe["shapes"]}
    assert {1, 63, 64, 65, 113, 1023, 1024} <= lengths
    pairs = {(spec.query_length, spec.key_length) for spec in by_probe["shapes"]}
    assert any(q < k for q, k in pairs) and any(q > k for q, k in pairs)
    assert {spec.values for spec in by_probe["stability"]} == set(VALUES) - {"normal"}
    alone = {layout for layout in OWN_LAYOUTS if "expanded" not in layout}
    assert {spec.layout for spec in by_probe["strides"]} == {*LAYOUTS, *alone} - {"plain"}
    options = {extra for spec in by_probe["options"] for extra in spec.extras}
    assert options == EXTRAS - {"lse"}
    random = generator().random(200, "accuracy")
    assert any(spec.scale_percent != 100 for spec in random)  # else an ignored scale is not seen
    assert {spec.dtype for spec in random} == {"float32", "float16", "bfloat16"}


def test_the_order_has_every_case_once_and_large_ones_early():
    specs = generator().random(60, "x")
    ordered, needed = in_order(specs)
    assert len(ordered) == len(set(specs)) and set(ordered) == set(specs)
    first = ordered[: needed + len(ordered) // 4]
    assert max(map(cost, first)) >= sorted(map(cost, ordered))[-4]
    assert needed == FEWEST_CASES


@pytest.mark.parametrize("name", PROBES)
def test_the_cases_that_always_run_have_all_that_a_defect_may_depend_on(name):
    """On a busy machine one case of each probe was run, and none had more queries than keys."""
    ordered, needed = in_order(plugins.load(PROBES[name]).cases(generator(configs=("one",))))
    assert needed >= min(len(ordered), FEWEST_CASES)

    def kinds(specs):
        return {
            (fact, value(spec))
            for spec in specs
            for fact, value in {
                "fewer queries": lambda s: s.query_length < s.key_length,
                "more queries": lambda s: s.query_length > s.key_length,
                "grouped heads": lambda s: s.heads > s.kv_heads,
                "a ragged tail": lambda s: bool(s.key_length % 16),
                "dtype": lambda s: s.dtype,
                "mask": lambda s: s.causal,
                "values": lambda s: s.values,
                "layout": lambda s: s.layout,
            }.items()
        }

    assert kinds(ordered[:needed]) == kinds(ordered)


@pytest.mark.parametrize("name", [name for name in PROBES if name != "large"])
def test_inside_limits_there_are_as_many_cases(name):
    """The cases of a kernel for one length in multiples of 128 had all been refused."""
    stated = {"dtypes": ["float16"], "head_dims": [64], "lengths": 128, "queries": "equal",
              "groups": [1]}  # fmt: skip
    few = limits.parse(stated, place="")
    specs = plugins.load(PROBES[name]).cases(generator(configs=("one",)))
    fitted = inside(specs, few, lambda spec: True)
    assert len(fitted) == len(set(specs)) and not any(map(few.refusal, fitted))


def test_what_is_about_gaps_has_no_case_for_contiguous_arrays():
    contiguous = limits.parse({"contiguous": True}, place="")
    fitted = inside(plugins.load(PROBES["strides"]).cases(generator()), contiguous, lambda s: True)
    of_inputs = {spec.layout for spec in fitted if not spec.layout.startswith("dO-")}
    assert {layout.rpartition("-")[2] for layout in of_inputs} == {"offset", "kvstacked"}
    assert "dO-transposed" in {spec.layout for spec in fitted}, "a model sends it all the same"


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ([], "wanted a dict"),
        ({"size": 3}, "has 'size'; wanted some of dtypes"),
        ({"dtypes": "float16"}, "wanted a list of some of float32"),
        ({"dtypes": ["float8"]}, "wanted a list of some of float32"),
        ({"head_dims": [0]}, "wanted a list of whole numbers"),
        ({"lengths": True}, "wanted a whole number from 1"),
        ({"queries": "few"}, "wanted one of equal"),
        ({"masks": ["causal"]}, "wanted one of causal"),
        ({"contiguous": 1}, "wanted True or False"),
        ({"lengths": 128, "longest": 100}, "no length is within"),
        ({"lengths": 128, "longest": 100}, "no multiple of 128 is from 1 to 100"),
        ({"lengths": 64, "shortest": 65, "longest": 127}, "no multiple of 64 is from 65 to 127"),
        ({"shortest": 256, "longest": 128}, "shortest 256 > longest 128"),
        ({"head_dims": [64, 128], "widest": 32}, "all head_dims are above widest 32"),
    ],
)
def test_limits_that_make_no_sense_are_refused(stated, words):
    with pytest.raises(BadInput, match=f"file.py: .*{words}"):
        limits.parse(stated, place="file.py")


def test_kconfig_has_the_same_defaults():
    defaults = kconfig.load(None)
    assert (defaults.suite_cases, defaults.suite_budget_s) == (CASES, BUDGET_S)


def test_a_failing_case_is_shrunk_to_what_matters():
    spec = generator().spec(
        batch=3, heads=8, kv_heads=2, query_length=113, key_length=300, head_dim=96,
        dtype="bfloat16", causal=True, scale_percent=37, values="large", layout="strided",
    )  # fmt: skip
    smallest = shrink(spec, lambda s: s.key_length > 64 and s.causal, until=own_seconds() + 60)
    assert (smallest.batch, smallest.heads, smallest.query_length, smallest.head_dim) == (
        1,
        1,
        1,
        16,
    )
    assert smallest.key_length == 65 and smallest.causal
    assert (smallest.dtype, smallest.values, smallest.layout) == ("float32", "normal", "plain")


def test_shrinking_ends_with_its_time():
    spec = generator().spec(length=200)
    assert shrink(spec, lambda s: True, until=own_seconds() - 1) == spec
    only = replace(spec, head_dim=48)
    assert shrink(only, lambda s: s == only, until=own_seconds() + 60) == only
