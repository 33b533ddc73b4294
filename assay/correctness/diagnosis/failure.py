"""Failing cases, run again for the values that are wrong."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from assay.correctness import judge
from assay.subjects.sequence import SequenceSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload


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
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            growth = np.where(comparable, np.maximum(size / right_size, 1.0), 1.0)
            budget = self.allowed * growth
            distance = np.abs(self.actual - values) / budget
        # Beside a budget without end every value would be near.
        distance = np.where(np.isfinite(budget), distance, np.inf)
        return np.where(same, 0.0, np.nan_to_num(distance, nan=np.inf))

    def share(self, values: np.ndarray) -> float:
        """Return the largest distance from other values, in budgets."""
        return float(self.shares(values).max())

    def share_of_wrong_rows(self, values: np.ndarray) -> float:
        """Return the largest distance among the rows that are wrong, in budgets."""
        wrong = (self.shares(self.right) > 1).any(axis=-1)
        return float(self.shares(values)[wrong].max()) if wrong.any() else np.inf


def run_again(
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
    right = call.expected()
    for comparison in judge.compare_all(call):
        if not comparison.holds and comparison.actual is not None:
            tensor = comparison.tensor
            return Failure(
                workload=call.workload,
                tensor=tensor,
                actual=comparison.actual,
                right=with_last_axis(tensor, getattr(right.result, tensor)),
                allowed=right.allowed[tensor].largest,
            )
    return None


def with_last_axis(tensor: str, values: np.ndarray) -> np.ndarray:
    """Return an LSE as [B, H, M, 1], and any other tensor as it is."""
    return values[..., None] if tensor == "lse" else values
