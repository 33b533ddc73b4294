"""Output and gradients against the float64 reference, held to a budget that rounding explains."""

import numpy as np

from assay.attention import baseline, reference
from assay.attention.budget import TENSORS, budgets
from assay.bench.call import Call
from assay.host import Host
from assay.records.schema import Measurement
from assay.workloads.spec import WorkloadSpec
from assay.workloads.synthetic import Workload

STAGE = "check"
_MEMORY_SHARE = 0.5  # of the machine, for the reference
_SOURCE = "float64 reference; budget: see assay/attention/budget.py"


def measure(call: Call, workload: Workload, host: Host) -> list[Measurement]:
    """For out, dq, dk and dv the largest error, and the largest share of its budget it takes."""
    wrong = _wrong_form("out", call(), call, workload.q.shape)
    if wrong:
        return [_failed("out", wrong)]
    needed = _reference_bytes(workload.spec)
    if needed > _MEMORY_SHARE * (host.devices[0].memory_bytes or 0):
        return [_too_large(needed)]
    arrays = {"q": workload.q, "k": workload.k, "v": workload.v, "grad_out": workload.grad_out}
    setting = {"causal": workload.spec.causal, "scale": workload.spec.scale}
    dtype = workload.spec.dtype
    expected = reference.attention(**arrays, **setting)
    plain = baseline.attention(**arrays, **setting, dtype=dtype)
    allowed = budgets(expected, plain, **arrays, **setting, dtype=dtype)

    out, gradients = call.gradients()
    values: list[Measurement] = []
    for name, array in zip(TENSORS, (out, *gradients), strict=True):
        wanted = getattr(expected, name)
        wrong = _wrong_form(name, array, call, wanted.shape)
        if wrong:
            values.append(_failed(name, wrong))
        else:
            values += _compare(name, call.framework.numpy(array), wanted, allowed[name])
    return values


def _reference_bytes(spec: WorkloadSpec) -> int:
    """What the float64 score matrices of the reference and its budget take at once."""
    return 6 * 8 * spec.batch * spec.heads * spec.query_length * spec.key_length


def _too_large(needed: int) -> Measurement:
    return Measurement(
        metric="error_over_budget_out",
        value=None,
        unit="ratio",
        status="unsupported",
        reason=f"the float64 reference would need {needed / 2**30:.0f} GiB of memory here; "
        "check it on a smaller workload",
        level="kernel",
    )


def _wrong_form(name: str, array: object, call: Call, shape: tuple[int, ...]) -> str | None:
    """What is wrong with a result before any of its values is looked at."""
    like = call.inputs[max(0, TENSORS.index(name) - 1)]  # out is like q, dq like q, dk like k
    if array is None:
        return f"{name}: no gradient arrives; the output does not depend on this input"
    if type(array) is not type(like):
        return f"{name} is a {type(array).__name__}, wanted a {type(like).__name__}"
    if tuple(array.shape) != shape:
        return f"{name} has shape {tuple(array.shape)}, wanted {shape}"
    if array.dtype != like.dtype:
        return f"{name} has dtype {array.dtype}, wanted {like.dtype}"
    return None


def _compare(
    name: str, actual: np.ndarray, expected: np.ndarray, allowed: np.ndarray
) -> list[Measurement]:
    error = np.abs(actual - expected)
    if not np.isfinite(error).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(error))[0])
        count = int((~np.isfinite(actual)).sum())
        return [_failed(name, f"{count} values of {name} are not finite, the first at {where}")]
    share = error / allowed
    worst = tuple(int(i) for i in np.unravel_index(int(share.argmax()), share.shape))
    holds = bool(share[worst] <= 1.0)
    reason = (
        None
        if holds
        else (
            f"{name} is off by {error[worst]:.3g} at {worst}, "
            f"{share[worst]:.3g} times what rounding explains"
        )
    )
    return [
        Measurement(
            metric=f"max_error_{name}",
            value=float(error.max()),
            unit="abs",
            source=_SOURCE,
            level="kernel",
        ),
        Measurement(
            metric=f"error_over_budget_{name}",
            value=float(share[worst]),
            unit="ratio",
            status="ok" if holds else "failed",
            reason=reason,
            source=_SOURCE,
            level="kernel",
        ),
    ]


def _failed(tensor: str, reason: str) -> Measurement:
    return Measurement(
        metric=f"error_over_budget_{tensor}",
        value=None,
        unit="ratio",
        status="failed",
        reason=reason,
        level="kernel",
    )
