"""The right answer of a sequence workload, and how far from it is still right."""

from contextlib import nullcontext
from weakref import WeakKeyDictionary

import numpy as np

from assay.attention import baseline, reference
from assay.attention.budget import allowances
from assay.attention.precision import PLAIN, Precision
from assay.instruments.blas_threads import single_thread
from assay.subjects import sampling
from assay.subjects.contract import SOURCE, DeclaredRounding, Expected
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload

_FEW_SCORES = 1 << 22  # whose products take no longer in one thread
_MOST_SCORES = 1 << 24  # of a workload; of more, only a sample of the results is looked at
# Computed once for each workload, and kept for as long as that is held.
_known: WeakKeyDictionary[Workload, dict[tuple[str, Precision], Expected]] = WeakKeyDictionary()


def expected(workload: Workload, device: str = "cpu", precision: Precision = PLAIN) -> Expected:
    """The reference's results for a workload and the budget of each tensor; `device` may help
    where there is much to compute, `precision` is what an implementation declares."""
    known = _known.setdefault(workload, {})
    if (device, precision) not in known:
        known[device, precision] = _computed(workload, device, precision)
    return known[device, precision]


def _computed(workload: Workload, device: str, precision: Precision) -> Expected:
    words = precision.words(workload.spec.dtype)
    source = f"{SOURCE}; {words}" if words else SOURCE
    if scores(workload.spec) > _MOST_SCORES:
        some = sampling.sample(workload, device=device, precision=precision)
        return Expected(result=some.result, allowed=some.allowed, index=some.index, source=source)
    arrays = {"q": workload.q, "k": workload.k, "v": workload.v, "grad_out": workload.grad_out}
    setting = {
        "causal": workload.spec.causal,
        "scale": workload.spec.scale,
        "visible": workload.visible,
    }
    dtype = workload.spec.dtype
    few = scores(workload.spec) <= _FEW_SCORES
    with single_thread() if few else nullcontext():
        right = reference.attention(**arrays, **setting)
        # The baseline may overflow, as its dtype does.
        with np.errstate(invalid="ignore", over="ignore"):
            plain = baseline.attention(**arrays, **setting, dtype=dtype, precision=precision)
            allowed = allowances(
                right, plain, **arrays, **setting, dtype=dtype, precision=precision
            )
    unit = precision.unit(dtype)
    rounding = DeclaredRounding(workload=workload, result=plain, unit=unit) if unit else None
    return Expected(result=right, allowed=allowed, source=source, rounding=rounding)


def scores(spec: WorkloadSpec) -> int:
    """The number of scores of a workload, visible or not."""
    return spec.batch * spec.heads * spec.query_length * spec.key_length
