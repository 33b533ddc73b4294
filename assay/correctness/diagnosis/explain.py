"""Puts the likely cause of a failure into words, from the failing cases and those that passed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from assay.attention.budget import TENSORS
from assay.captures.inputs import make
from assay.correctness import judge
from assay.correctness.cases import size
from assay.correctness.diagnosis import conditions, gradient_suspects, location
from assay.correctness.diagnosis.suspects import scores_of, suspects
from assay.subjects.expected import expected
from assay.subjects.sequence import SequenceSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload

_EXAMINED = 6  # failing cases, from small to large, and as many that passed
_LARGEST_EXAMINED = 10_000_000  # in the units of cases.size
_MATCH = 3.0  # budgets, within which a result is that of a suspect


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One failing case, looked at closely: the first wrong tensor, as it is and as it should be."""

    workload: Workload
    tensor: str
    actual: np.ndarray
    right: np.ndarray
    allowed: np.ndarray

    def shares(self, values: np.ndarray) -> np.ndarray:
        """How far each element is from other values, in budgets."""
        with np.errstate(invalid="ignore"):
            return np.nan_to_num(np.abs(self.actual - values) / self.allowed, nan=np.inf)

    def share(self, values: np.ndarray) -> float:
        """How far the result is from other values at the worst, in budgets."""
        return float(self.shares(values).max())

    def share_of_wrong_rows(self, values: np.ndarray) -> float:
        """The same for the rows that are wrong; the others are right already."""
        wrong = (self.shares(self.right) > 1).any(axis=-1)
        return float(self.shares(values)[wrong].max()) if wrong.any() else np.inf


def likely_cause(
    failing: Sequence[WorkloadSpec],
    passing: Sequence[WorkloadSpec],
    bound: Callable[[WorkloadSpec], SequenceSubject],
) -> str | None:
    """Words for why `failing` fail, as far as that can be told."""
    place = conditions.where(failing, passing)
    failures = [found for spec in _examined(failing) if (found := _failure(bound(spec)))]
    said = _said(failures, [make(spec) for spec in _examined(passing)]) if failures else None
    if said and place:
        return f"{said} (it fails only {place})"
    return said or (f"it fails only {place}" if place else None)


def _examined(specs: Sequence[WorkloadSpec]) -> list[WorkloadSpec]:
    """Some cases from the smallest to the largest that is not too costly."""
    ordered = sorted(dict.fromkeys(specs), key=size)
    chosen = [spec for spec in ordered if size(spec) <= _LARGEST_EXAMINED] or ordered[:1]
    step = max(1.0, (len(chosen) - 1) / (_EXAMINED - 1))
    return [chosen[round(n * step)] for n in range(min(_EXAMINED, len(chosen)))]


def _failure(call: SequenceSubject) -> Failure | None:
    """Run a case again and find the first tensor that is wrong; None where none can be compared."""
    right = expected(call.workload)
    found = {"out": call()}
    if "lse" in call.implementation.accepts:
        found = dict(zip(("out", "lse"), call.apply(*call.inputs, lse=True), strict=True))
    if call.has_backward:
        _, gradients = call.gradients()
        found |= zip(TENSORS[1:], gradients, strict=True)
    for tensor, array in found.items():
        if judge.compare(tensor, array, call).holds or call.form_problem(tensor, array):
            continue
        return Failure(
            workload=call.workload,
            tensor=tensor,
            actual=call.numpy(array)[..., None] if tensor == "lse" else call.numpy(array),
            right=_column(tensor, getattr(right.result, tensor)),
            allowed=right.allowed[tensor].largest,
        )
    return None


def _column(tensor: str, values: np.ndarray) -> np.ndarray:
    return values[..., None] if tensor == "lse" else values


def _said(failures: Sequence[Failure], passed: Sequence[Workload]) -> str | None:
    """The first explanation that fits all failures examined and is not refuted by what passed."""
    same = [f for f in failures if f.tensor == failures[-1].tensor]
    for explain in (_blind, _not_finite, _hardly):
        if said := explain(same):
            return said
    if cause := _best_fit(same, passed, Failure.share):
        return cause
    for explain in (_lse, _factor, _precision):
        if said := explain(same):
            return said
    if cause := _best_fit(same, passed, Failure.share_of_wrong_rows):
        return f"in some rows, {cause}"
    return _place(same)


def _blind(failures: Sequence[Failure]) -> str | None:
    """Whether only rows are wrong that may see no key."""
    for failure in failures:
        if failure.tensor not in ("out", "dq", "lse"):
            return None
        with np.errstate(invalid="ignore"):
            equal = failure.actual == failure.right  # also where both are -inf
            wrong = ~(equal | (np.abs(failure.actual - failure.right) <= failure.allowed))
        blind = ~failure.workload.visible.any(axis=-1, keepdims=True)
        if not blind.any() or (wrong & ~blind).any():
            return None
    wanted = "-inf" if failures[0].tensor == "lse" else "zeros"
    found = "NaN (0/0)" if np.isnan(failures[-1].actual).any() else "another value"
    return (
        f"queries that see no key give {found} in {failures[0].tensor}, wanted {wanted}: such rows "
        "are averaged over hidden keys, or never written"
    )


def _not_finite(failures: Sequence[Failure]) -> str | None:
    bad = [failure for failure in failures if not np.isfinite(failure.actual).all()]
    if not bad or failures[0].tensor == "lse":
        return None
    worst = bad[-1]
    name = worst.tensor
    if worst.workload.spec.values in ("large", "huge", "onehot"):
        return (
            f"{name} overflows or is 0/0 where scores are large: the row's own largest score (its "
            f"max) is not taken off before exp, the log of a weight that underflowed is taken, or "
            f"scores are held in {worst.workload.spec.dtype} and overflow to inf"
        )
    return f"{name} is not finite: memory is read that was never written, or 0/0"


def _hardly(failures: Sequence[Failure]) -> str | None:
    """An error so small that suspects cannot be told from it."""
    if max(failure.share(failure.right) for failure in failures) > _MATCH:
        return None
    worst = failures[-1]
    return (
        f"{worst.tensor} is right but for rounding, which is larger than the budget: sums, weights "
        f"or an exponential in lower precision than float32"
    )


def _best_fit(
    failures: Sequence[Failure],
    passed: Sequence[Workload],
    distance: Callable[[Failure, np.ndarray], float],
) -> str | None:
    """The mistake whose result fits every failure, best, and would not show where all was well."""
    fits: dict[str, list[float]] = {}
    for failure in failures:
        for cause, values in _candidates(failure.workload, failure.tensor):
            if values.shape != failure.right.shape:
                continue
            share = distance(failure, values)
            if share <= _MATCH and _shows(values, failure.right, failure.allowed):
                fits.setdefault(cause, []).append(share)
    whole = {cause: max(shares) for cause, shares in fits.items() if len(shares) == len(failures)}
    if len(whole) > 1:
        refuted = _refuted(passed, failures[0].tensor, set(whole))
        whole = {cause: share for cause, share in whole.items() if cause not in refuted} or whole
    if not whole:
        return None
    best = min(whole.values())
    return next(cause for cause, share in whole.items() if share <= max(1.0, 1.5 * best))


def _shows(values: np.ndarray, right: np.ndarray, allowed: np.ndarray) -> bool:
    """Whether a mistake makes a difference that the budget would not forgive."""
    with np.errstate(invalid="ignore"):
        return bool(np.nan_to_num(np.abs(values - right) / allowed, nan=np.inf).max() > 1)


def _refuted(passed: Sequence[Workload], tensor: str, causes: set[str]) -> set[str]:
    """Mistakes that would have shown on cases that passed."""
    found = set()
    for workload in passed:
        right = expected(workload)
        wanted, allowed = getattr(right.result, tensor), right.allowed[tensor].largest
        for cause, values in _candidates(workload, tensor):
            known = cause in causes and values.shape == _column(tensor, wanted).shape
            if known and _shows(values, _column(tensor, wanted), 3 * allowed):
                found.add(cause)
    return found


def _candidates(workload: Workload, tensor: str) -> list[tuple[str, np.ndarray]]:
    """What each known mistake gives for a tensor."""
    found = []
    forward = tensor not in TENSORS[1:]
    given = replace(workload, grad_out=workload.grad_out[:0]) if forward else workload
    for suspect in suspects(given):
        result = suspect.result()
        values = getattr(result, tensor) if result else None
        if values is not None:
            found.append((suspect.cause, _column(tensor, values)))
    if not forward:
        named = gradient_suspects.suspects(workload, tensor)
        # The output was right, so a mistake of the backward alone is the likelier.
        found = [(suspect.cause, suspect.gradient) for suspect in named] + found
    return found


def _lse(failures: Sequence[Failure]) -> str | None:
    if failures[0].tensor != "lse":
        return None
    if all(f.share(f.right * np.log2(np.e)) <= _MATCH for f in failures):
        return "the LSE is in base 2, wanted the natural logarithm"
    highest = [_highest(failure.workload) for failure in failures]
    if all(f.share(f.right - m) <= _MATCH for f, m in zip(failures, highest, strict=True)):
        return "the LSE lacks the row's largest score: only the logarithm of the sum is returned"
    return None


def _highest(workload: Workload) -> np.ndarray:
    scores, _ = scores_of(workload)
    highest = np.where(workload.visible, scores, -np.inf).max(axis=-1, keepdims=True)
    return np.where(np.isneginf(highest), 0.0, highest)


def _factor(failures: Sequence[Failure]) -> str | None:
    factors = [location.constant_factor(f.actual, f.right, f.allowed) for f in failures]
    if any(factor is None for factor in factors):
        return None
    shown = " or ".join(dict.fromkeys(f"{factor:.3g}" for factor in factors))
    return f"{failures[0].tensor} is everywhere {shown} times what it should be: a wrong factor"


def _precision(failures: Sequence[Failure]) -> str | None:
    for failure in reversed(failures):
        dtype = location.rounding_of(failure.actual, failure.right, failure.workload)
        if dtype:
            return (
                f"errors are of the size of {dtype} rounding: {failure.tensor} of a float32 input "
                "is computed in lower precision"
            )
    worst = failures[-1]
    if worst.workload.spec.dtype != "float32" and worst.share(worst.right) < 30:
        return (
            f"{worst.tensor} is right but for rounding: sums or weights are kept in "
            f"{worst.workload.spec.dtype}, wanted float32"
        )
    return None


def _place(failures: Sequence[Failure]) -> str | None:
    worst = failures[-1]
    text = location.wrong_elements(worst.tensor, worst.actual, worst.right, worst.allowed)
    return text or None
