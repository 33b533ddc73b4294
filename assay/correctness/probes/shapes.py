"""Awkward shapes: lengths around tile sizes, unequal lengths, head groups, dimensions, batches."""

from dataclasses import replace

from assay.correctness import judge
from assay.correctness.cases import HEADS, LENGTHS, LONG, Plan
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.sequence import SequenceSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload

UNEQUAL = ((1, 64), (1, 113), (63, 64), (64, 63), (65, 113), (113, 65), (17, 257), (257, 17))
LONG_UNEQUAL = ((1, 1023), (113, 1023), (1023, 113), (64, 1024), (1025, 1024))
HEAD_DIMS = (8, 16, 24, 32, 40, 64, 80, 96, 128, 160, 192, 256)


def cases(plan: Plan) -> list[WorkloadSpec]:
    """Each axis swept by itself, masks and dtypes alternating."""
    if plan.quick:
        return _alternating(plan, [*_lengths(plan, (1, 63, 64, 65, 113), UNEQUAL[1:6:2])])
    lengths = _lengths(plan, (*LENGTHS, *LONG), (*UNEQUAL, *LONG_UNEQUAL))
    heads = [plan.spec(batch=2, heads=h, kv_heads=kv, length=33) for h, kv in (*HEADS, (16, 2))]
    dims = [plan.spec(head_dim=d, length=65, scale_percent=130) for d in HEAD_DIMS]
    batches = [plan.spec(batch=b, length=17) for b in (2, 3, 5, 7, 16)]
    return _alternating(plan, [*lengths, *heads, *dims, *batches])


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Output, LSE and gradients."""
    return [judge.verdict("shapes", judge.everything(call))]


def _lengths(
    plan: Plan, equal: tuple[int, ...], unequal: tuple[tuple[int, int], ...]
) -> list[WorkloadSpec]:
    pairs = [(n, n) for n in equal] + list(unequal)
    return [
        plan.spec(query_length=queries, key_length=keys, heads=2, kv_heads=1)
        for queries, keys in pairs
    ]


def _alternating(plan: Plan, specs: list[WorkloadSpec]) -> list[WorkloadSpec]:
    """Each case causal and full, in one dtype each; over the list every dtype takes its turn."""
    found = []
    for number, spec in enumerate(specs):
        for shift, causal in ((0, True), (1, False)):
            dtype = plan.dtypes[(number + shift) % len(plan.dtypes)]
            found.append(replace(spec, dtype=dtype, causal=causal))
    return found
