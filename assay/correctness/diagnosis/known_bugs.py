"""The known bug whose float64 reference gives the values of a failure."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from assay.attention.budget import TENSORS
from assay.correctness.diagnosis import backward, forward
from assay.correctness.diagnosis.failure import Failure, with_last_axis
from assay.subjects.expected import expected
from assay.workloads.workload import Workload

MATCH = 3.0  # budgets, within which a result is that of a known bug
TIE = ", or "  # between bugs that fit equally well
_NAMED = 2  # of these


def known_bug(
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
    if not candidates:  # also where there are no failures
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
    return TIE.join(words[:_NAMED])


def _fitting(
    failure: Failure, distance: Callable[[Failure, np.ndarray], float]
) -> dict[str, float]:
    """Return the bugs that a failure may be, each with the distance of its nearest result: a bug
    has several where kernels differ in what follows from it."""
    nearest: dict[str, float] = {}
    for bug, values in _results_of_bugs(failure.workload, failure.tensor):
        if values.shape == failure.right.shape:
            share = distance(failure, values)
            if share <= MATCH and _shows(values, failure.right, failure.allowed):
                nearest[bug] = min(share, nearest.get(bug, share))
    return nearest


def _shows(values: np.ndarray, right: np.ndarray, allowed: np.ndarray) -> bool:
    """Return whether a bug makes a difference that exceeds the budget."""
    with np.errstate(invalid="ignore"):
        difference = np.where(values == right, 0.0, np.abs(values - right))  # -inf is -inf
    return bool(np.nan_to_num(difference / allowed, nan=np.inf).max() > 1)


def _refuted(passed: Sequence[Workload], tensor: str, bugs: set[str]) -> set[str]:
    """Return the bugs that would have shown on cases that passed, whichever result they have."""
    refuted: set[str] = set()
    for workload in passed:
        right = expected(workload)
        wanted = with_last_axis(tensor, getattr(right.result, tensor))
        allowed = 3 * right.allowed[tensor].largest
        shown: dict[str, bool] = {}
        for bug, values in _results_of_bugs(workload, tensor):
            if bug in bugs and values.shape == wanted.shape:
                shown[bug] = shown.get(bug, True) and _shows(values, wanted, allowed)
        refuted |= {bug for bug, shows in shown.items() if shows}
    return refuted


def _results_of_bugs(workload: Workload, tensor: str) -> list[tuple[str, np.ndarray]]:
    """Return the values that each known bug gives for a tensor."""
    of_backward = tensor in TENSORS[1:]
    given = workload if of_backward else replace(workload, grad_out=workload.grad_out[:0])
    with np.errstate(all="ignore"):  # a bug may divide by zero; the user has not
        results = [(bug, getattr(result, tensor)) for bug, result in forward.bugs(given)]
        results = [(bug, with_last_axis(tensor, v)) for bug, v in results if v is not None]
        # The output is right where only a gradient is wrong, so bugs of the backward come first.
        return [*backward.bugs(workload, tensor), *results] if of_backward else results
