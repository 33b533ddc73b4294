"""The contract of a subject: what is checked and timed, whatever it is.

A sequence implementation, a layer or a model, bound to its inputs on one device. One judge compares
what it returns with what it expects, one loop times it beside others.
"""

from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from assay.attention.budget import Allowance
from assay.records.schema import Level, WorkloadIdentity
from assay.workloads.work import Work

if TYPE_CHECKING:
    from assay.subjects.change import InputChange

SOURCE = "float64 reference; budget: see assay/attention/budget.py"
Index = tuple[np.ndarray, ...]  # one integer array for each leading axis, of one shape together


@dataclass(frozen=True, kw_only=True)
class DeclaredRounding:
    """Results of the baseline, which rounds as an implementation declares, and the unit of that."""

    workload: Any
    result: Any
    unit: float


@dataclass(frozen=True, kw_only=True)
class Expected:
    """The right values of each tensor (`result.out`, `result.dq`, ...) and the error allowed to
    them; of all elements, or of those that lie at `index`."""

    result: Any
    allowed: dict[str, Allowance]
    index: dict[str, Index] | None = None
    source: str = SOURCE  # where the values and the budgets come from
    rounding: DeclaredRounding | None = None  # beside which no mistake may hide

    def has(self, tensor: str) -> bool:
        """Tell whether right values of a tensor are known."""
        return tensor in self.allowed

    def place(self, tensor: str, at: tuple[int, ...]) -> tuple[int, ...]:
        """The place in the whole tensor of a place among the compared ones."""
        if self.index is None:
            return at
        axes = np.broadcast_arrays(*self.index[tensor])
        return (*(int(axis[at[: axis.ndim]]) for axis in axes), *at[axes[0].ndim :])


@dataclass(frozen=True, kw_only=True)
class TensorComparison:
    """One tensor against its expected values. `share` is the error over its budget, the larger of
    the worst element's and the mean's; None where the tensor could not be compared. `actual` holds
    the float64 values that were compared; an LSE is [batch, heads, queries, 1]. `cause` is there
    where the errors themselves show it."""

    tensor: str
    share: float | None = None
    error: float | None = None
    problem: str | None = None
    actual: np.ndarray | None = None
    source: str = SOURCE
    cause: str | None = None

    @property
    def holds(self) -> bool:
        return self.problem is None


class Subject(Protocol):
    """Calling it runs the forward pass; the framework's own array comes back, maybe unfinished.

    `timer` and `state` belong to the probe that times it.
    """

    name: str
    kind: str  # the module of this folder that binds it
    device: str
    level: Level
    framework: ModuleType
    inputs: tuple[Any, ...]
    grad_out: Any
    options: dict[str, Any]  # keyword arguments of every call
    implementation: Any  # what was loaded
    workload: Any  # what its inputs were made from
    gradient_names: tuple[str, ...]  # of what the backward pass gives, one for each input
    accepts: frozenset[str]  # options beyond the plain call
    timer: Any
    state: dict[str, Any]

    @property
    def identity(self) -> WorkloadIdentity: ...
    @property
    def has_backward(self) -> bool: ...
    def __call__(self) -> Any: ...
    def apply(self, *inputs: Any, **options: Any) -> Any: ...
    def gradients(self) -> tuple[Any, tuple[Any, ...]]: ...
    def synchronize(self) -> None: ...

    def renewed(self, change: "InputChange") -> Self:
        """The same on inputs of its own, which are changed."""

    def restore(self) -> None:
        """Write the inputs as they should be over what was made of them."""

    def expected(self) -> Expected:
        """Right values and error budgets, for the check."""

    def places(self, change: "InputChange", *, keys: bool = False) -> dict[str, Index]:
        """Where a call on inputs that are changed is looked at, by tensor; with `keys` also where
        the right value takes long."""

    def spots(self, change: "InputChange", *, keys: bool = False) -> Expected:
        """The right values there."""

    def numpy(self, array: Any, index: Index | None = None) -> np.ndarray:
        """A result as float64, or what lies at `index` of it."""

    def form_problem(self, tensor: str, array: Any) -> str | None:
        """Say what is wrong with a result before any of its values is looked at."""

    def consistency(self, out: Any, gradients: tuple[Any, ...]) -> list[TensorComparison]:
        """Compare results with each other, where no reference covers them."""

    def result_bytes(self, *, training: bool) -> dict[str, int]:
        """Bytes of each tensor that a call returns."""

    def work(self) -> tuple[Work, dict[str, str]]:
        """Operations and bytes by formula, and the formula of each in words."""
