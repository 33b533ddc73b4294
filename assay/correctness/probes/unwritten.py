"""Reads of memory that was never written: fresh buffers hold NaN while a call runs."""

import numpy as np

from assay.correctness import judge
from assay.correctness.cases import CaseGenerator
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.contract import TensorComparison
from assay.subjects.sequence import SequenceSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload

_CAUSE = "memory that was never written is read: torch.empty, or scratch from an earlier call"


def cases(generator: CaseGenerator) -> list[WorkloadSpec]:
    """Return tails, rows that see no key, and lengths around tiles."""
    pairs = ((17, 17), (65, 33))
    if not generator.quick:
        pairs = ((1, 1), (17, 17), (64, 64), (65, 129), (65, 33))
    first, half = generator.dtypes[0], generator.half()
    return [
        generator.spec(query_length=q, key_length=k, kv_heads=kv, dtype=dtype, causal=causal)
        for q, k in pairs
        for dtype, causal, kv in ((first, True, 2), (half, q > k, 1))
    ]


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Compare output, LSE and gradients with poisoned memory; unsupported where they are wrong
    without it too, unless the NaN shows: then what was there before was wrong by chance."""
    with call.framework.poisoned(call.device) as poisoned:
        if not poisoned:
            reason = f"{call.implementation.framework} hands out no unwritten memory"
            return [judge.unsupported("unwritten", reason)]
        comparisons = judge.compare_all(call)
        call.synchronize()
    if not all(comparison.holds for comparison in comparisons):
        plain = judge.compare_all(call)
        wrong_too = not all(comparison.holds for comparison in plain)
        if wrong_too and _nan_count(comparisons) <= _nan_count(plain):
            return [judge.unsupported("unwritten", "it is wrong without poisoned memory too")]
    prefix = "with NaN in memory not yet written, "
    return [judge.worst("unwritten", comparisons, prefix, _CAUSE)]


def _nan_count(comparisons: list[TensorComparison]) -> int:
    values = [c.actual for c in comparisons if c.actual is not None]
    return sum(int(np.isnan(array).sum()) for array in values)
