"""Kernels that compile for each shape: their cases share a few, and compiling is not counted."""

import time
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

import assay
from assay import plugins
from assay.attention import limits
from assay.attention.sequence import eager
from assay.correctness.cases import FEWEST_CASES, CaseGenerator, features
from assay.correctness.shared_shapes import brought_to, shapes
from assay.correctness.suite import makes_cases
from assay.workloads.spec import OF_DO

CASES = CaseGenerator(seed=0, count=120, quick=False, gpu=False)
QUICK = CaseGenerator(seed=0, count=24, quick=True, gpu=False)
PROBES = {
    name: plugins.load(plugin)
    for name, plugin in plugins.listing("probes").items()
    if makes_cases(plugin) and not plugin.literals["OWN_SHAPES"]
}
COMPILING_S = 0.3


def shape(spec):
    sizes = (spec.batch, spec.heads, spec.kv_heads, spec.query_length, spec.key_length)
    return (*sizes, spec.head_dim, spec.dtype, spec.causal)


def shared(*, any_scale=True, **stated):
    base = CASES.spec(length=64, head_dim=64)
    within = limits.parse(stated, place="")
    fitted = within.fitted(base)

    def takes(spec):
        return within.refusal(spec) is None and (any_scale or spec.scale_percent == 100)

    return shapes(fitted, CASES.dtypes, within, takes)


@pytest.mark.parametrize("generator", [CASES, QUICK], ids=["all", "quick"])
@pytest.mark.parametrize("name", PROBES)
def test_cases_in_shared_shapes_have_all_that_a_defect_may_depend_on(name, generator):
    specs = PROBES[name].cases(generator)
    few = brought_to(shared(), specs)
    given = {shape(spec) for spec in few if spec.layout not in OF_DO}
    assert given <= {shape(spec) for spec in shared()}
    of_dO = [shape(spec) for spec in few if spec.layout in OF_DO]
    assert len(set(of_dO)) == len(of_dO), "torch misreads a second layout of one shape"
    assert len(set(few)) == len(few) >= min(len(set(specs)), FEWEST_CASES)
    wanted = set().union(*map(features, specs)) if specs else set()
    assert wanted <= set().union(*map(features, few), set())


@pytest.mark.parametrize("any_scale", [True, False])
@pytest.mark.parametrize("name", ["accuracy", "gradients", "shapes"])
def test_quick_cases_in_shared_shapes_have_rows_that_see_no_key(name, any_scale):
    """flax's attention, which averages such rows and takes no scale, was once failed for its
    rounding alone."""
    few = brought_to(shared(any_scale=any_scale, groups=[1]), PROBES[name].cases(QUICK))
    assert any(spec.causal and spec.query_length > spec.key_length for spec in few)


def test_shared_shapes_are_inside_limits():
    within = {"dtypes": ["float16"], "head_dims": [64], "lengths": 128, "queries": "equal"}
    few = shared(**within)
    assert 4 <= len(few) == len(set(map(shape, few)))
    refusal = limits.parse(within, place="").refusal
    assert not any(map(refusal, few)) and not any(
        map(refusal, brought_to(few, PROBES["accuracy"].cases(CASES)))
    )


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("lengths", [1, 64, 128])
def test_shared_shapes_have_fewer_queries_than_keys_in_several_blocks(lengths, causal):
    """A public kernel ends its loop over keys at the block of its queries. Its 33 queries and 65
    keys became 128 and 128, which hid that, and its other mistakes were the news."""
    few = [s for s in shared(lengths=lengths) if s.causal == causal]
    assert any(-(-s.query_length // 128) < -(-s.key_length // 128) for s in few), few


def ends_at_its_queries(q, k, v, *, causal, scale):
    """Eager attention in blocks of 128 whose loop over keys ends at the last block of queries."""
    queries, keys = q.shape[2], k.shape[2]
    assert queries % 128 == keys % 128 == 0
    mask = (torch.arange(keys) < queries).expand(len(q), 1, queries, keys)
    return eager.attention(q, k, v, causal=causal, scale=scale, mask=mask)


def test_a_loop_over_keys_that_ends_at_the_block_of_queries_fails_in_shared_shapes():
    names = [replace(spec, dtype="float32").name for spec in shared(lengths=128)]
    verdict = assay.check(ends_at_its_queries, probes=["accuracy"], workloads=names)
    assert verdict.failures and "keys are bounded by Sq" in verdict.failures[0].cause, str(verdict)


def compiling(seen):
    """Return eager attention that takes long for each new shape, forwards and backwards."""

    def compiled(*key):
        if key not in seen:
            seen.add(key)
            time.sleep(COMPILING_S)

    class Identity(torch.autograd.Function):
        @staticmethod
        def forward(ctx, out, key):
            ctx.key = key
            return out.clone()

        @staticmethod
        def backward(ctx, grad_out):
            compiled("backward", *ctx.key)
            return grad_out, None

    def attention(q, k, v, *, causal, scale):
        key = (tuple(q.shape), tuple(k.shape), q.dtype, causal)
        compiled("forward", *key)
        return Identity.apply(eager.attention(q, k, v, causal=causal, scale=scale), key)

    return attention


@pytest.mark.slow
def test_a_kernel_that_compiles_for_each_shape_gets_its_cases_in_time():
    """jax.nn.dot_product_attention got one case of each probe, and was called right on that: the
    compiler had used up the time of the others."""
    seen, probes = set(), ["accuracy", "gradients", "shapes", "metamorphic"]
    verdict = assay.check(compiling(seen), probes=probes, budget_s=4)
    assert verdict, str(verdict)
    assert "it compiles for each shape, so all cases share 17 of them" in str(verdict)
    counts = {m.metric: len(m.samples) for m in verdict.holding}
    assert set(counts) == set(probes) and min(counts.values()) >= FEWEST_CASES, counts
    # The seventeen, one more to find limits from, and kv heads written out.
    assert sum(key[0] == "forward" for key in seen) <= 23
    assert sum(key[0] == "backward" for key in seen) <= 18


@pytest.mark.slow
def test_a_kernel_that_does_not_compile_keeps_its_many_shapes():
    verdict = assay.check(eager.attention, probes=["accuracy"])
    assert verdict and verdict.conditions is None
    assert [len(m.samples) for m in verdict.holding] == [60]


def test_a_slow_start_is_no_compiler():
    """A library that loads itself at its first call is slow once."""
    calls = []

    def attention(q, k, v, *, causal, scale):
        calls.append(1)
        time.sleep(COMPILING_S * (len(calls) <= 2))
        return eager.attention(q, k, v, causal=causal, scale=scale)

    verdict = assay.check(attention, probes=["batch"], quick=True)
    assert verdict and verdict.conditions is None


def test_what_prepare_compiles_is_kept_for_all_cases_of_a_shape():
    prepared = []

    def prepare(spec):
        prepared.append(spec)
        return eager.attention

    assert assay.check(eager.attention, probes=["stability"], quick=True, prepare=prepare)
    assert len(prepared) == len(set(prepared))
