"""Layers with a cache: prefill and decode against the whole pass, bytes against the formula."""

from dataclasses import replace

import pytest

jax = pytest.importorskip("jax")
pytest.importorskip("flax")

from assay import host
from assay.correctness.probes import cached
from assay.models import layer
from assay.subjects.layers import bind, bind_loaded, place
from assay.subjects.layers.inputs import make
from assay.workloads.spec import WorkloadSpec

LENGTH = 11
SPEC = WorkloadSpec(
    batch=2, heads=8, kv_heads=1, query_length=LENGTH, key_length=LENGTH, head_dim=16,
    dtype="bfloat16", causal=True, seed=0,
)  # fmt: skip


def measured(subject):
    results = cached.measure(subject, subject.workload, host.inspect())
    return {result.metric: result for result in results}


@pytest.mark.parametrize(
    "heads, kv_heads",
    [
        pytest.param(8, 1, marks=pytest.mark.slow),
        pytest.param(32, 32, marks=pytest.mark.slow),
        (32, 8),
    ],
)
@pytest.mark.parametrize(
    "name", [pytest.param("gemma:xla", marks=pytest.mark.slow), "gemma_fast:xla"]
)
@pytest.mark.sampled
def test_prefill_and_decode_give_the_whole_pass(name, heads, kv_heads):
    inputs = make(replace(SPEC, heads=heads, kv_heads=kv_heads))
    results = measured(bind(name, inputs, host=host.inspect(), device="cpu"))
    assert results["cached"].status == "ok" and 0 < results["cached"].value <= 1
    held = results["held_cache_bytes"]
    assert held.status == "ok", held.reason
    assert held.value == 2 * 2 * kv_heads * 16 * LENGTH * 2  # k and v, 2 rows, 2 B


def positions_from_zero(apply):
    """Decodes every token as if it were the first."""

    def faulty(params, x, positions, mask, cache=None, *, core):
        positions = positions if cache is None else 0 * positions
        return apply(params, x, positions, mask, cache, core=core)

    return faulty


def sees_later_slots(apply):
    """Decodes with slots that are not written yet."""

    def faulty(params, x, positions, mask, cache=None, *, core):
        mask = mask if cache is None else mask | True
        return apply(params, x, positions, mask, cache, core=core)

    return faulty


def keeps_float32(apply):
    """Right, in twice the bytes."""

    def faulty(params, x, positions, mask, cache=None, *, core):
        if cache is not None:
            cache = (cache[0], *(part.astype(x.dtype) for part in cache[1:]))
        out, (index, *parts) = apply(params, x, positions, mask, cache, core=core)
        return out, (index, *(part.astype("float32") for part in parts))

    return faulty


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("fault", "metric", "words"),
    [
        (positions_from_zero, "cached", "4 tokens decoded with a cache: out is off by"),
        (sees_later_slots, "cached", "times what rounding explains"),
        (keeps_float32, "held_cache_bytes", "the cache holds 2,816 B, 2 x batch x kv heads"),
    ],
)
def test_a_broken_cache_is_found(fault, metric, words):
    good = layer.load("gemma_fast:xla")
    broken, inputs = replace(good, apply=fault(good.apply)), make(SPEC)
    results = measured(bind_loaded(broken, inputs, place(inputs, "cpu"), "cpu"))
    assert {name for name, result in results.items() if result.status == "failed"} == {metric}
    assert words in results[metric].reason and results[metric].cause


def test_a_layer_that_takes_no_cache_says_so():
    good, inputs = layer.load("gemma:xla"), make(SPEC)
    without = bind_loaded(replace(good, cache=""), inputs, place(inputs, "cpu"), "cpu")
    assert measured(without)["cached"].reason == "it takes no cache"
    short = make(replace(SPEC, query_length=4, key_length=4))
    subject = bind("gemma:xla", short, host=host.inspect(), device="cpu")
    (result,) = measured(subject).values()
    assert (result.status, result.metric) == ("unsupported", "cached")
