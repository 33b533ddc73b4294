"""Comparison of results with the float64 reference, each within its error budget."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from assay.correctness.diagnosis.structure import Structure, structure
from assay.records.schema import Measurement
from assay.records.verdicts import EXACTLY
from assay.subjects.contract import SOURCE, Expected, Subject, TensorComparison

_LARGEST = {"float32": 3.4e38, "bfloat16": 3.38e38, "float16": 65504.0}


class MalformedResult(Exception):
    """A result that is no array of the framework, or has the wrong shape or dtype."""


def output(call: Subject) -> Any:
    """Return the output of a call; raises MalformedResult."""
    out = call()
    if problem := call.form_problem("out", out):
        raise MalformedResult(problem)
    return out


def values(call: Subject) -> np.ndarray:
    """Return the output as float64, [batch, heads, queries, head_dim]; raises MalformedResult."""
    return call.numpy(output(call))


def bits(call: Subject) -> bytes:
    """Return the bytes of the output; raises MalformedResult."""
    return call.framework.bits(output(call))


def digest(call: Subject) -> str:
    """Return a hash of the output's bytes; raises MalformedResult."""
    return hashlib.blake2b(bits(call), digest_size=16).hexdigest()


def arrays(gradient: Any) -> list[Any]:
    """Return the arrays of a gradient: one, or those of a layer's weights, which have names."""
    if not isinstance(gradient, Mapping):
        return [gradient]
    return [array for value in gradient.values() for array in arrays(value)]


def compare(
    tensor: str, array: Any, call: Subject, wanted: Expected | None = None
) -> TensorComparison:
    """Compare a tensor that `call` returned with what is expected of its inputs."""
    wanted = wanted or call.expected()
    problem = call.form_problem(tensor, array)
    if not problem and wanted.index is not None and not call.framework.all_finite(array):
        problem = f"some values of {tensor} are not finite"
    if problem:
        return TensorComparison(tensor=tensor, problem=problem, source=wanted.source)
    actual = call.numpy(array, None if wanted.index is None else wanted.index[tensor])
    return compare_values(tensor, actual, wanted, call.workload.spec.dtype)


def compare_values(
    tensor: str, actual: np.ndarray, wanted: Expected, dtype: str
) -> TensorComparison:
    """Compare a tensor, as float64, with its expected values."""
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
        return TensorComparison(tensor=tensor, problem=text, actual=actual, source=wanted.source)
    shares = error / allowed.largest
    worst = tuple(int(i) for i in np.unravel_index(int(shares.argmax()), shares.shape))
    mean = float(error.mean()) / allowed.mean
    share, problem, cause = max(float(shares[worst]), mean), None, None
    if shares[worst] > 1:
        place = wanted.place(tensor, worst)
        problem = (
            f"{tensor} is off by {error[worst]:.3g} at {place}, "
            f"{shares[worst]:.3g} times what rounding explains"
        )
        if right[worst] == 0 and shares[worst] > EXACTLY:
            problem = f"{tensor} must be exactly 0 at {place}, is {actual[worst]:.3g}"
    elif mean > 1:
        problem = (
            f"{tensor} is off by {error.mean():.3g} on average, "
            f"{mean:.3g} times what rounding explains"
        )
    elif seen := _structure(tensor, actual, wanted):
        share, cause = seen.share, seen.cause
        problem = (
            f"{tensor} is within the budget of what is declared, but its errors are not those of "
            f"rounding, by {share:.3g} times what chance explains"
        )
    return TensorComparison(
        tensor=tensor,
        share=share,
        error=float(error.max()),
        problem=problem,
        actual=actual,
        source=wanted.source,
        cause=cause,
    )


def _structure(tensor: str, actual: np.ndarray, wanted: Expected) -> Structure | None:
    """Return what a declared precision does not explain, though its budget is wide enough."""
    declared = wanted.rounding
    if declared is None or tensor == "lse":
        return None
    settings = {"plain": declared.result, "workload": declared.workload, "unit": declared.unit}
    return structure(tensor, actual, wanted.result, **settings)


def compare_forward(call: Subject, **options: Any) -> list[TensorComparison]:
    """Compare the output, and the LSE of implementations that return it."""
    if "lse" not in call.accepts:
        return [compare("out", call.apply(*call.inputs, **options), call)]
    returned = call.apply(*call.inputs, lse=True, **options)
    if not (isinstance(returned, tuple) and len(returned) == 2):
        problem = f"with lse=True it returned a {type(returned).__name__}, wanted (out, lse)"
        return [TensorComparison(tensor="lse", problem=problem)]
    out, lse = returned
    return [compare("out", out, call), compare("lse", lse, call)]


def compare_backward(call: Subject, **options: Any) -> list[TensorComparison]:
    """Compare the output of a call that records a graph, and the gradients."""
    out, gradients = call.gradients(**options)
    wanted = call.expected()
    results = zip(("out", *call.gradient_names), (out, *gradients), strict=True)
    comparisons = [
        compare(name, array, call, wanted) for name, array in results if wanted.has(name)
    ]
    return comparisons + call.consistency(out, gradients)


def compare_all(call: Subject, **options: Any) -> list[TensorComparison]:
    """Compare the output, the LSE, and where these hold the gradients, as far as there are any."""
    comparisons = compare_forward(call, **options)
    if call.has_backward and all(comparison.holds for comparison in comparisons):
        comparisons += compare_backward(call, **options)[1:]
    return comparisons


def is_right(call: Subject) -> bool:
    """Return whether output, LSE and gradients are within their budgets."""
    return all(comparison.holds for comparison in compare_all(call))


def measurements(comparisons: list[TensorComparison]) -> list[Measurement]:
    """Return the largest error of each tensor, and the share of its budget."""
    measured = []
    for comparison in comparisons:
        if comparison.error is not None:
            measured.append(
                Measurement(
                    metric=f"max_error_{comparison.tensor}",
                    value=comparison.error,
                    unit="abs",
                    source=comparison.source,
                    level="kernel",
                )
            )
        measured.append(worst(f"error_over_budget_{comparison.tensor}", [comparison]))
    return measured


def worst(
    metric: str, comparisons: list[TensorComparison], prefix: str = "", cause: str | None = None
) -> Measurement:
    """Return the worst of some comparisons; `prefix` and `cause` are those of a failure."""
    failing = [comparison for comparison in comparisons if not comparison.holds]
    shares = [c.share for c in (failing or comparisons) if c.share is not None]
    reason = None if shares else "nothing to compare"
    return Measurement(
        metric=metric,
        value=max(shares, default=None),
        unit="ratio",
        status="failed" if failing else "ok",
        reason=f"{prefix}{failing[0].problem}" if failing else reason,
        cause=(failing[0].cause or cause) if failing else None,
        source=comparisons[0].source if comparisons else SOURCE,
        level="kernel",
    )


def unmoved(metric: str, moved: np.ndarray, text: str, cause: str | None = None) -> Measurement:
    """Return the outcome for an output that must not change; `moved` is in budgets, NaN a failure
    that `text` describes."""
    share = float(np.nan_to_num(moved, nan=np.inf).max())
    if share > 1:
        far = f"by {share:.3g} times what rounding explains"
        return failed(metric, f"{text}, {far if share < EXACTLY else 'and must not at all'}", cause)
    return passed(metric, share)


def failed(metric: str, reason: str, cause: str | None = None) -> Measurement:
    """Return a failure without a number."""
    return Measurement(
        metric=metric, value=None, unit="ratio", status="failed", reason=reason, cause=cause
    )


def unsupported(metric: str, reason: str) -> Measurement:
    """Return the outcome of a probe that does not apply."""
    return Measurement(metric=metric, value=None, unit="ratio", status="unsupported", reason=reason)


def passed(metric: str, share: float = 0.0) -> Measurement:
    """Return the outcome of a probe that holds, with the share of the budget it takes."""
    return Measurement(metric=metric, value=share, unit="ratio", source=SOURCE, level="kernel")
