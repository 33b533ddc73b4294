"""Holds what an implementation returned against the float64 reference and its budget."""

import hashlib
from typing import Any

import numpy as np

from assay.records.schema import Measurement
from assay.subjects.contract import SOURCE, Comparison, Expected, Subject

_LARGEST = {"float32": 3.4e38, "bfloat16": 3.38e38, "float16": 65504.0}


class WrongForm(Exception):
    """What came back is not an array of the kind that was asked for."""


def output(call: Subject) -> Any:
    """What the call returns, where it is of the right form; raises WrongForm."""
    out = call()
    if problem := call.form_problem("out", out):
        raise WrongForm(problem)
    return out


def values(call: Subject) -> np.ndarray:
    """The output as float64, [batch, heads, queries, head_dim]; raises WrongForm."""
    return call.numpy(output(call))


def bits(call: Subject) -> bytes:
    """The output's very bytes; raises WrongForm."""
    return call.framework.bits(output(call))


def digest(call: Subject) -> str:
    """What identifies the bits of the output; raises WrongForm."""
    return hashlib.blake2b(bits(call), digest_size=16).hexdigest()


def compare(tensor: str, array: Any, call: Subject, wanted: Expected | None = None) -> Comparison:
    """A tensor that `call` gave, against what its workload asks for."""
    wanted = wanted or call.expected()
    problem = call.form_problem(tensor, array)
    if not problem and wanted.index is not None and not call.framework.all_finite(array):
        problem = f"some values of {tensor} are not finite"
    if problem:
        return _incomparable(tensor, problem, wanted.source)
    values = call.numpy(array, None if wanted.index is None else wanted.index[tensor])
    return compare_values(tensor, values, wanted, call.workload.spec.dtype)


def compare_values(tensor: str, actual: np.ndarray, wanted: Expected, dtype: str) -> Comparison:
    """NumPy values of a tensor against what was expected."""
    right, allowed = getattr(wanted.result, tensor), wanted.allowed[tensor]
    if tensor == "lse":
        actual, right = actual[..., None], right[..., None]
        dtype = "float32"
    with np.errstate(invalid="ignore"):
        error = np.where(actual == right, 0.0, np.abs(actual - right))  # -inf is -inf
    beyond = np.isfinite(right) & (np.abs(right) > _LARGEST[dtype])  # more than the dtype holds
    error = np.where(beyond, 0.0, error)
    if not np.isfinite(error).all():
        where = wanted.place(tensor, tuple(int(i) for i in np.argwhere(~np.isfinite(error))[0]))
        count = int((~np.isfinite(error)).sum())
        text = f"{count} of {error.size} values of {tensor} are not finite, the first at {where}"
        return _incomparable(tensor, text, wanted.source)
    shares = error / allowed.largest
    worst = tuple(int(i) for i in np.unravel_index(int(shares.argmax()), shares.shape))
    mean = float(error.mean()) / allowed.mean
    share = max(float(shares[worst]), mean)
    problem = None
    if shares[worst] > 1:
        problem = (
            f"{tensor} is off by {error[worst]:.3g} at {wanted.place(tensor, worst)}, "
            f"{shares[worst]:.3g} times what rounding explains"
        )
    elif mean > 1:
        problem = (
            f"{tensor} is off by {error.mean():.3g} on average, "
            f"{mean:.3g} times what rounding explains"
        )
    return Comparison(
        tensor=tensor,
        share=share,
        error=float(error.max()),
        problem=problem,
        source=wanted.source,
    )


def _incomparable(tensor: str, problem: str, source: str = SOURCE) -> Comparison:
    return Comparison(tensor=tensor, share=None, error=None, problem=problem, source=source)


def forward(call: Subject, **options: Any) -> list[Comparison]:
    """The output, and the LSE of those that give it, against the reference."""
    if "lse" not in call.accepts:
        return [compare("out", call.apply(*call.inputs, **options), call)]
    returned = call.apply(*call.inputs, lse=True, **options)
    if not (isinstance(returned, tuple) and len(returned) == 2):
        text = f"with lse=True it returned a {type(returned).__name__}, wanted (out, lse)"
        return [_incomparable("lse", text)]
    return [
        compare(name, array, call) for name, array in zip(("out", "lse"), returned, strict=True)
    ]


def backward(call: Subject, **options: Any) -> list[Comparison]:
    """Output and gradients against the reference."""
    out, gradients = call.gradients(**options)
    wanted = call.expected()
    results = zip(("out", *call.gradient_names), (out, *gradients), strict=True)
    compared = [compare(name, array, call, wanted) for name, array in results if wanted.has(name)]
    return compared + call.consistency(out, gradients)


def everything(call: Subject, **options: Any) -> list[Comparison]:
    """The output, the LSE, and the gradients of those that have a backward."""
    found = forward(call, **options)
    if call.has_backward and all(comparison.holds for comparison in found):
        found += backward(call, **options)[1:]
    return found


def measurements(comparisons: list[Comparison]) -> list[Measurement]:
    """For each tensor its largest error, and the share of its budget."""
    found = []
    for one in comparisons:
        if one.error is not None:
            found.append(
                Measurement(
                    metric=f"max_error_{one.tensor}",
                    value=one.error,
                    unit="abs",
                    source=one.source,
                    level="kernel",
                )
            )
        found.append(verdict(f"error_over_budget_{one.tensor}", [one]))
    return found


def verdict(
    metric: str, comparisons: list[Comparison], about: str = "", cause: str | None = None
) -> Measurement:
    """The worst of some comparisons as one measurement; `cause` is that of a failure."""
    broken = [comparison for comparison in comparisons if not comparison.holds]
    shares = [c.share for c in (broken or comparisons) if c.share is not None]
    problem = broken[0].problem if broken else None
    return Measurement(
        metric=metric,
        value=max(shares) if shares else None,
        unit="ratio",
        status="failed" if broken else "ok",
        reason=f"{about}{problem}" if problem else (None if shares else "nothing to compare"),
        cause=cause if problem else None,
        source=comparisons[0].source if comparisons else SOURCE,
        level="kernel",
    )


def failed(metric: str, reason: str, cause: str | None = None) -> Measurement:
    """A verdict that needs no number."""
    return Measurement(
        metric=metric, value=None, unit="ratio", status="failed", reason=reason, cause=cause
    )


def unsupported(metric: str, reason: str) -> Measurement:
    """What does not apply."""
    return Measurement(metric=metric, value=None, unit="ratio", status="unsupported", reason=reason)


def holds(metric: str, share: float = 0.0) -> Measurement:
    """A verdict without complaint."""
    return Measurement(metric=metric, value=share, unit="ratio", source=SOURCE, level="kernel")
