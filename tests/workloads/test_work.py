"""Operations and bytes by formula, held against counting in the visibility matrix itself."""

from dataclasses import replace

import pytest

from assay.captures.inputs import make
from assay.workloads import work
from assay.workloads.spec import WorkloadSpec

SPEC = WorkloadSpec(
    batch=3, heads=4, kv_heads=2, query_length=17, key_length=33, head_dim=16, dtype="float16",
    causal=True, seed=0,
)  # fmt: skip

OPTIONS = (
    {},
    {"window": 1},
    {"window": 5},
    {"window": 40},
    {"padded": True},
    {"masked": True},
    {"padded": True, "window": 6},
    {"packed": 3, "batch": 1},
    {"packed": 2, "batch": 1, "window": 4},
)


def counted(workload) -> int:
    visible = workload.visible
    return int(visible.sum()) * (workload.spec.batch // visible.shape[0])


@pytest.mark.parametrize("lengths", [(17, 33), (33, 17), (1, 9), (9, 1), (20, 20)])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("option", OPTIONS, ids=str)
def test_pairs_are_those_of_the_visibility_matrix(lengths, causal, option):
    queries, keys = lengths
    spec = replace(SPEC, query_length=queries, key_length=keys, causal=causal, **option)
    workload = make(spec)
    assert work.visible_pairs(workload) == counted(workload)


def test_a_long_causal_workload_is_counted_without_its_matrix():
    """The boolean matrix would be 64 GiB; the spec stands in for arrays that are not needed."""
    spec = replace(SPEC, query_length=2**18, key_length=2**18)
    visible = work.keys_per_query(spec.query_length, spec.key_length, causal=True)
    assert int(visible.sum()) == 2**18 * (2**18 + 1) // 2


def test_values_by_hand():
    """batch 3, 4 heads on 2, 17 queries on 33 keys, head dimension 16, float16."""
    pairs = 3 * sum(range(17, 34))  # the first query sees 17 keys, the last all 33
    q, k = 3 * 4 * 17 * 16 * 2, 3 * 2 * 33 * 16 * 2
    counted = work.of(make(SPEC))
    assert counted.forward_flops == 4 * 16 * 4 * pairs
    assert counted.backward_flops == 10 * 16 * 4 * pairs
    assert counted.forward_bytes == 2 * q + 2 * k
    assert counted.backward_bytes == 4 * q + 4 * k + 3 * 4 * 17 * 4
    assert counted.kv_cache_bytes == 2 * k
