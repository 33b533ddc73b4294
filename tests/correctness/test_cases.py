"""The generator of cases, and how a failing one is made smaller."""

import time
from dataclasses import replace

import pytest

from assay import plugins
from assay.correctness.cases import BUDGET_S, CASES, Plan, in_order, size
from assay.correctness.shrink import shrink
from assay.studies import kconfig
from assay.workloads.spec import LAYOUTS, VALUES, parse

EXTRAS = frozenset({"lengths", "window", "mask", "cu_seqlens", "lse"})
PROBES = {
    name: plugin
    for name, plugin in plugins.listing("probes").items()
    if "cases" in plugin.functions
}


def plan(**given) -> Plan:
    usual = {"seed": 3, "count": 40, "quick": False, "gpu": False, "accepts": EXTRAS}
    return Plan(**{**usual, **given})


def test_the_same_seed_gives_the_same_cases_and_another_seed_others():
    assert plan().random(30, "x") == plan().random(30, "x")
    assert plan().random(30, "x") != plan().random(30, "y")
    assert plan().random(30, "x") != plan(seed=4).random(30, "x")


@pytest.mark.parametrize("gpu", [False, True])
@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("name", PROBES)
def test_every_case_has_a_name_that_says_all_of_it(name, quick, gpu):
    asked = plan(quick=quick, gpu=gpu, configs=("one",))
    specs = plugins.load(PROBES[name]).cases(asked)
    assert len(specs) == len(in_order(specs)) or name != "shapes"
    for spec in specs:
        assert parse(spec.name, defaults=asked.spec(seed=0)) == spec


def test_the_cases_cover_what_they_promise():
    """The lengths, kinds of values and layouts that the documentation names."""
    by_probe = {n: plugins.load(p).cases(plan(configs=("one",))) for n, p in PROBES.items()}
    lengths = {spec.key_length for spec in by_probe["shapes"]}
    assert {1, 63, 64, 65, 113, 1023, 1024} <= lengths
    pairs = {(spec.query_length, spec.key_length) for spec in by_probe["shapes"]}
    assert any(q < k for q, k in pairs) and any(q > k for q, k in pairs)
    assert {spec.values for spec in by_probe["stability"]} == set(VALUES) - {"normal"}
    assert {spec.layout for spec in by_probe["strides"]} == set(LAYOUTS) - {"plain"}
    wanted = {extra for spec in by_probe["options"] for extra in spec.extras}
    assert wanted == EXTRAS - {"lse"}
    random = plan().random(200, "accuracy")
    assert any(spec.scale_percent != 100 for spec in random)  # else an ignored scale is not seen
    assert {spec.dtype for spec in random} == {"float32", "float16", "bfloat16"}


def test_the_order_has_every_case_once_and_large_ones_early():
    specs = plan().random(60, "x")
    ordered = in_order(specs)
    assert len(ordered) == len(set(specs)) and set(ordered) == set(specs)
    first = ordered[: len(ordered) // 4]
    assert max(map(size, first)) >= sorted(map(size, ordered))[-4]


def test_kconfig_has_the_same_defaults():
    defaults = kconfig.load(None)
    assert (defaults.suite_cases, defaults.suite_budget_s) == (CASES, BUDGET_S)


def test_a_failing_case_is_shrunk_to_what_matters():
    spec = plan().spec(
        batch=3, heads=8, kv_heads=2, query_length=113, key_length=300, head_dim=96,
        dtype="bfloat16", causal=True, scale_percent=37, values="large", layout="strided",
    )  # fmt: skip
    found = shrink(spec, lambda s: s.key_length > 64 and s.causal, until=time.monotonic() + 60)
    assert (found.batch, found.heads, found.query_length, found.head_dim) == (1, 1, 1, 16)
    assert found.key_length == 65 and found.causal
    assert (found.dtype, found.values, found.layout) == ("float32", "normal", "plain")


def test_shrinking_ends_with_its_time():
    spec = plan().spec(length=200)
    assert shrink(spec, lambda s: True, until=time.monotonic() - 1) == spec
    only = replace(spec, head_dim=48)
    assert shrink(only, lambda s: s == only, until=time.monotonic() + 60) == only
