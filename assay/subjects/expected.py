"""The right answer of a sequence workload, and how far from it is still right."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from assay.attention import baseline, reference
from assay.attention.budget import Allowance, allowances
from assay.attention.reference import Result
from assay.subjects import sampling
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload

_MOST_SCORES = 1 << 24  # of a workload; of more, only a sample of the results is looked at


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What is right, and how far from it is still right; of all places, or of those in `index`."""

    result: Result
    allowed: dict[str, Allowance]
    index: dict[str, sampling.Index] | None = None

    def place(self, tensor: str, at: tuple[int, ...]) -> tuple[int, ...]:
        """Where in the whole tensor a place among the compared ones is."""
        if self.index is None:
            return at
        batch, head, row = np.broadcast_arrays(*self.index[tensor])
        return (*(int(axis[at[:3]]) for axis in (batch, head, row)), *at[3:])


@lru_cache(maxsize=8)
def expected(workload: Workload) -> Expected:
    """The reference's result for a workload and the budget of each tensor."""
    if scores(workload.spec) > _MOST_SCORES:
        found = sampling.sample(workload)
        return Expected(result=found.result, allowed=found.allowed, index=found.index)
    arrays = {"q": workload.q, "k": workload.k, "v": workload.v, "grad_out": workload.grad_out}
    setting = {
        "causal": workload.spec.causal,
        "scale": workload.spec.scale,
        "visible": workload.visible,
    }
    dtype = workload.spec.dtype
    right = reference.attention(**arrays, **setting)
    with np.errstate(invalid="ignore", over="ignore"):  # the baseline may overflow, as its dtype
        plain = baseline.attention(**arrays, **setting, dtype=dtype)
        allowed = allowances(right, plain, **arrays, **setting, dtype=dtype)
    return Expected(result=right, allowed=allowed)


def scores(spec: WorkloadSpec) -> int:
    """How many scores a workload has, seen or not."""
    return spec.batch * spec.heads * spec.query_length * spec.key_length
