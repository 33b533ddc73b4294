"""The likely cause of a failure in words, from the failing cases and those that passed."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from assay.attention.budget import TENSORS
from assay.captures.inputs import make
from assay.correctness import judge
from assay.correctness.cases import cost
from assay.correctness.diagnosis import backward, forward, patterns
from assay.subjects.expected import expected
from assay.subjects.sequence import SequenceSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload

T = TypeVar("T")

_EXAMINED = 6  # failing cases, from cheap to costly, and as many that passed
_MOST_COST = 10_000_000  # of an examined case
_ORDER = ("out", "lse", *TENSORS[1:])  # in which an error spreads
_NAMED = 2  # bugs that fit equally well
_MOST_ROUNDING = 30.0  # budgets, that sums in half precision may be off by
_MATCH = 3.0  # budgets, within which a result is that of a known bug


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A failing case with its first wrong tensor; an LSE is [B, H, M, 1]."""

    workload: Workload
    tensor: str
    actual: np.ndarray
    right: np.ndarray
    allowed: np.ndarray

    def shares(self, values: np.ndarray) -> np.ndarray:
        """Return the distance of each element from other values, in budgets; NaN is NaN.

        Rounding grows with what is rounded, and so does the budget where a row of the other values
        is larger than the right one.
        """
        same = (self.actual == values) | (np.isnan(self.actual) & np.isnan(values))
        size, right_size = (np.abs(a).max(axis=-1, keepdims=True) for a in (values, self.right))
        comparable = np.isfinite(size) & np.isfinite(right_size) & (right_size > 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            growth = np.where(comparable, np.maximum(size / right_size, 1.0), 1.0)
            distance = np.abs(self.actual - values) / (self.allowed * growth)
        return np.where(same, 0.0, np.nan_to_num(distance, nan=np.inf))

    def share(self, values: np.ndarray) -> float:
        """Return the largest distance from other values, in budgets."""
        return float(self.shares(values).max())

    def share_of_wrong_rows(self, values: np.ndarray) -> float:
        """Return the largest distance among the rows that are wrong, in budgets."""
        wrong = (self.shares(self.right) > 1).any(axis=-1)
        return float(self.shares(values)[wrong].max()) if wrong.any() else np.inf


def likely_cause(
    failing: Sequence[WorkloadSpec],
    passing: Sequence[WorkloadSpec],
    bind: Callable[[WorkloadSpec], SequenceSubject],
) -> str | None:
    """Return why the failing cases fail, as far as that can be told."""
    condition = patterns.common_condition(failing, passing)
    failures, raising = _failures(_affordable(failing), bind)
    masks = {spec.causal for spec in failing}
    alike = _affordable([spec for spec in passing if spec.causal in masks])  # they refute most
    cause = _explanation(_some(failures), [make(s) for s in _some(alike)]) if failures else None
    if cause and raising:
        cause = f"where it does not raise, {cause}"
    if cause and condition:
        return f"{cause} (it fails only {condition})"
    return cause or (f"it fails only {condition}" if condition else None)


def _affordable(specs: Sequence[WorkloadSpec]) -> list[WorkloadSpec]:
    """Return each case that is not too costly, the cheapest first, and at least one."""
    ordered = sorted(dict.fromkeys(specs), key=cost)
    return [spec for spec in ordered if cost(spec) <= _MOST_COST] or ordered[:1]


def _some(ordered: Sequence[T]) -> list[T]:
    """Return a few, spread evenly from the first to the last."""
    step = max(1.0, (len(ordered) - 1) / (_EXAMINED - 1))
    return [ordered[round(n * step)] for n in range(min(_EXAMINED, len(ordered)))]


def _failures(
    specs: Sequence[WorkloadSpec], bind: Callable[[WorkloadSpec], SequenceSubject]
) -> tuple[list[Failure], int]:
    """Run cases again; return those with a wrong tensor, and the number of those that raise."""
    failures, raising = [], 0
    for spec in specs:
        try:
            failures.append(_failure(bind(spec)))
        except Exception:  # printed when the probe ran the case
            raising += 1
    return [failure for failure in failures if failure], raising


def _failure(call: SequenceSubject) -> Failure | None:
    """Run a case again and return its first wrong tensor; None where none can be compared."""
    right = expected(call.workload)
    for comparison in judge.compare_all(call):
        if not comparison.holds and comparison.actual is not None:
            tensor = comparison.tensor
            return Failure(
                workload=call.workload,
                tensor=tensor,
                actual=comparison.actual,
                right=_with_last_axis(tensor, getattr(right.result, tensor)),
                allowed=right.allowed[tensor].largest,
            )
    return None


def _with_last_axis(tensor: str, values: np.ndarray) -> np.ndarray:
    """Return an LSE as [B, H, M, 1], and any other tensor as it is."""
    return values[..., None] if tensor == "lse" else values


def _explanation(failures: Sequence[Failure], passed: Sequence[Workload]) -> str | None:
    """Return the first explanation that fits all failures of the first tensor that is wrong: a
    gradient that is wrong where the output is right explains no wrong output."""
    first = min((f.tensor for f in failures), key=_ORDER.index)
    failures = [f for f in failures if f.tensor == first]
    for explain in (_rows_without_keys, _rounding_beyond_budget):
        if cause := explain(failures):
            return cause
    if cause := _known_bug(failures, passed, Failure.share):
        return cause
    for explain in (_not_finite, _wrong_lse, _wrong_factor, _low_precision):
        if cause := explain(failures):
            return cause
    if cause := _known_bug(failures, passed, Failure.share_of_wrong_rows):
        return f"in some rows, {cause}"
    last = failures[-1]
    return patterns.wrong_places(last.tensor, last.actual, last.right, last.allowed) or None


def _rows_without_keys(failures: Sequence[Failure]) -> str | None:
    """Explain failures whose wrong rows all belong to queries that see no key."""
    tensor = failures[0].tensor
    if tensor not in ("out", "dq", "lse"):
        return None
    for failure in failures:
        with np.errstate(invalid="ignore"):
            equal = failure.actual == failure.right  # also where both are -inf
            wrong = ~(equal | (np.abs(failure.actual - failure.right) <= failure.allowed))
        blind = ~failure.workload.visible.any(axis=-1, keepdims=True)
        if not blind.any() or (wrong & ~blind).any():
            return None
    actual = "NaN (0/0)" if np.isnan(failures[-1].actual).any() else "other values"
    return (
        f"queries that see no key give {actual} in {tensor}, wanted "
        f"{'-inf' if tensor == 'lse' else 'zeros'}: such rows are averaged over hidden keys, or "
        "never written"
    )


def _not_finite(failures: Sequence[Failure]) -> str | None:
    infinite = [failure for failure in failures if not np.isfinite(failure.actual).all()]
    if not infinite or failures[0].tensor == "lse":
        return None
    tensor, spec = infinite[-1].tensor, infinite[-1].workload.spec
    if spec.values in ("large", "huge", "onehot"):
        return (
            f"{tensor} overflows or is 0/0 where scores are large: the row's own largest score "
            "(its max) is not subtracted before exp, the log of a weight that underflowed is "
            f"taken, or scores are held in {spec.dtype} and overflow to inf"
        )
    return f"{tensor} is not finite: memory is read that was never written, or 0/0"


def _rounding_beyond_budget(failures: Sequence[Failure]) -> str | None:
    """Explain an error so small that no known bug could be told from it."""
    if max(failure.share(failure.right) for failure in failures) > _MATCH:
        return None
    return (
        f"{failures[-1].tensor} is right except for rounding, which exceeds the budget: sums, "
        "weights or exp are computed in lower precision than float32"
    )


def _known_bug(
    failures: Sequence[Failure],
    passed: Sequence[Workload],
    distance: Callable[[Failure, np.ndarray], float],
) -> str | None:
    """Return the bug whose result fits every failure best and would not show where cases passed."""
    fits: dict[str, list[float]] = {}
    for failure in failures:
        for bug, share in _fitting(failure, distance).items():
            fits.setdefault(bug, []).append(share)
    candidates = {bug: max(shares) for bug, shares in fits.items() if len(shares) == len(failures)}
    if len(candidates) > 1:
        refuted = _refuted(passed, failures[0].tensor, set(candidates))
        candidates = {b: share for b, share in candidates.items() if b not in refuted} or candidates
    if not candidates:
        return None
    best = min(candidates.values())
    return _in_words([bug for bug, share in candidates.items() if share <= max(1.0, 1.5 * best)])


def _in_words(tied: Sequence[str]) -> str:
    """Return bugs that no case tells apart, the likeliest two; those that differ in one number, the
    size of a tile, are one bug."""
    variants: dict[str, list[str]] = {}
    for bug in tied:
        variants.setdefault(re.sub(r"\d+", "{}", bug), []).append(bug)
    words = []
    for pattern, bugs in variants.items():
        sizes = [size for bug in bugs for size in re.findall(r"\d+", bug)]
        if len(bugs) > 1 and len(sizes) == len(bugs):
            words.append(pattern.format(f"{', '.join(sizes[:-1])} or {sizes[-1]}"))
        else:
            words.append(bugs[0])
    return ", or ".join(words[:_NAMED])


def _fitting(
    failure: Failure, distance: Callable[[Failure, np.ndarray], float]
) -> dict[str, float]:
    """Return the bugs that a failure may be, each with the distance of its nearest result: a bug
    has several where kernels differ in what follows from it."""
    nearest: dict[str, float] = {}
    for bug, values in _results_of_bugs(failure.workload, failure.tensor):
        if values.shape == failure.right.shape:
            share = distance(failure, values)
            if share <= _MATCH and _shows(values, failure.right, failure.allowed):
                nearest[bug] = min(share, nearest.get(bug, share))
    return nearest


def _shows(values: np.ndarray, right: np.ndarray, allowed: np.ndarray) -> bool:
    """Return whether a bug makes a difference that exceeds the budget."""
    with np.errstate(invalid="ignore"):
        return bool(np.nan_to_num(np.abs(values - right) / allowed, nan=np.inf).max() > 1)


def _refuted(passed: Sequence[Workload], tensor: str, bugs: set[str]) -> set[str]:
    """Return the bugs that would have shown on cases that passed."""
    refuted = set()
    for workload in passed:
        right = expected(workload)
        wanted = _with_last_axis(tensor, getattr(right.result, tensor))
        allowed = 3 * right.allowed[tensor].largest
        for bug, values in _results_of_bugs(workload, tensor):
            comparable = bug in bugs and values.shape == wanted.shape
            if comparable and _shows(values, wanted, allowed):
                refuted.add(bug)
    return refuted


def _results_of_bugs(workload: Workload, tensor: str) -> list[tuple[str, np.ndarray]]:
    """Return the values that each known bug gives for a tensor."""
    of_backward = tensor in TENSORS[1:]
    given = workload if of_backward else replace(workload, grad_out=workload.grad_out[:0])
    results = [(bug, getattr(result, tensor)) for bug, result in forward.bugs(given)]
    results = [(bug, _with_last_axis(tensor, v)) for bug, v in results if v is not None]
    # The output is right where only a gradient is wrong, so bugs of the backward come first.
    return [*backward.bugs(workload, tensor), *results] if of_backward else results


def _wrong_lse(failures: Sequence[Failure]) -> str | None:
    if failures[0].tensor != "lse":
        return None
    if all(f.share(f.right * np.log2(np.e)) <= _MATCH for f in failures):
        return "the LSE is in base 2, wanted the natural logarithm"
    if all(f.share(f.right - _row_maximum(f.workload)) <= _MATCH for f in failures):
        return "the LSE lacks the row's largest score: only the logarithm of the sum is returned"
    return None


def _row_maximum(workload: Workload) -> np.ndarray:
    """Return the largest score of each row, [B, H, M, 1]; 0 where a row sees no key."""
    scores, _ = forward.scores_of(workload)
    highest = np.where(workload.visible, scores, -np.inf).max(axis=-1, keepdims=True)
    return np.where(np.isneginf(highest), 0.0, highest)


def _wrong_factor(failures: Sequence[Failure]) -> str | None:
    factors = [patterns.constant_factor(f.actual, f.right, f.allowed) for f in failures]
    if any(factor is None for factor in factors):
        return None
    words = " or ".join(dict.fromkeys(f"{factor:.3g}" for factor in factors))
    return f"every element of {failures[0].tensor} is {words} times what it should be"


def _low_precision(failures: Sequence[Failure]) -> str | None:
    """Explain failures that are all of the size of some rounding: one that is not has another
    cause, and the others may have that too."""
    last = failures[-1]
    names = [_precision(failure) for failure in failures]
    if not all(names):
        return None
    if lower := [name for f, name in zip(failures, names, strict=True) if _is_float32(f)]:
        return (
            f"errors are of the size of {lower[-1]} rounding: {last.tensor} of a float32 input "
            "is computed in lower precision"
        )
    return (
        f"{last.tensor} is right except for rounding: sums or weights are kept in {names[-1]}, "
        "wanted float32"
    )


def _precision(failure: Failure) -> str | None:
    """Return the precision whose rounding a failure may be; None where it is more than that."""
    if _is_float32(failure):
        return patterns.lower_precision(failure.actual, failure.right)
    rounding = failure.share(failure.right) < _MOST_ROUNDING
    return failure.workload.spec.dtype if rounding else None


def _is_float32(failure: Failure) -> bool:
    return failure.workload.spec.dtype == "float32"
