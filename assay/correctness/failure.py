"""A failing probe: its smallest failing case, and the likely cause in words."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import ModuleType

import numpy as np

from assay import plugins
from assay.attention.precision import SCALES, TF32, Precision
from assay.correctness import judge
from assay.correctness.case_result import FAILED, CaseResult, run_case
from assay.correctness.cases import cost
from assay.correctness.diagnosis.cause import DIAGNOSED, likely_cause
from assay.correctness.diagnosis.failure import run_again
from assay.correctness.shrink import shrink
from assay.correctness.tested import TestedImplementation
from assay.instruments import guard
from assay.instruments.own_time import own_seconds
from assay.records import verdicts
from assay.records.schema import Measurement
from assay.subjects.expected import expected
from assay.subjects.sequence import framework_of
from assay.workloads.spec import WorkloadSpec
from assay.workloads.values import FLOAT8
from assay.workloads.workload import identity

_SHRINKING_S = 6.0
_STATE = (
    "state is carried from call to call, such as a stale buffer or the result of an earlier call: "
    "a freshly loaded copy is right on the same case, so it fails only after other calls"
)

_TF32 = (
    "float32 is computed in lower precision, with errors of the size of TF32 or float16 rounding: "
    'products in TF32 explain them; where those are intended, declare FLOAT32 = "tf32"'
)
# What FP8 explains takes this share of its budget, and exceeds that of its dtype so many times.
_FP8_SHARE, _FP8_EXCESS = 0.1, 4.0
_EXPLAINED = 0.7  # of the errors, at most, are left where rounding in some FP8 is taken off
_LAXEST = Precision(format="e5m2", scale="tensor")  # what causality allows any FP8
_ASKED = 6  # causal cases, whether a query sees the future
_FP8 = (
    "it computes in lower precision than its inputs have, with errors of the size of FP8 rounding: "
    "inputs in FP8 explain them; where those are intended, declare {}"
)


def failure(
    tested: TestedImplementation,
    name: str,
    probe: ModuleType,
    results: Sequence[CaseResult],
    passing: Sequence[WorkloadSpec],
    *,
    planned: int = 0,
    advised: list[Precision] | None = None,
) -> Measurement:
    """Return the measurement of a failing probe: its smallest failing case and the likely cause.
    `planned` cases were asked for. A precision that probes before it were advised to declare is in
    `advised`: no other one is named, and the first is added."""
    failing = [result for result in results if result.status in FAILED]
    # Wrong values say more than an error: of a dtype that raises, other probes tell.
    first = min(failing, key=lambda result: (result.ended, _raises(result), cost(result.spec)))
    smallest, tried = (first, []) if first.ended else _smallest(tested, probe, first)
    ran = [result for result in results if result.status != "unsupported"]
    cause = smallest.cause
    if not cause and _passes_on_fresh_copy(tested, probe, smallest.spec):
        cause = _STATE
    if not cause and name in DIAGNOSED:
        known = {r.spec: r.status == "ok" for r in tried if r.status in (*FAILED, "ok")}
        # The smallest is among them: no cause may stand beside a case that contradicts it.
        wrong = [result.spec for result in (*failing, smallest) if not result.ended]
        cause = likely_cause(wrong, passing, tested.bind, known)
        # No mistake is known: only rounding, where it shows, or nothing.
        unknown = not cause or "rounding" in cause or cause.startswith("it fails only ")
        excess = max(result.share or 0.0 for result in (*failing, smallest))
        advised = [] if advised is None else advised
        if unknown and (advice := _advice(tested, probe, wrong, excess, advised)):
            cause = advice
        elif unknown or cause.startswith("wrong only in "):
            cause = _sees_future(tested, wrong, _LAXEST) or cause
    return Measurement(
        subject=tested.name,
        metric=name,
        value=smallest.share,
        unit="ratio",
        status=failing[0].status,
        reason=f"{smallest.reason}; smallest failing case {smallest.spec.name}"
        + verdicts.failing(len(failing), len(ran), max(0, planned - len(results))),
        cause=cause,
        samples=[result.share for result in results if result.share is not None],
        source=tested.source,
        level="kernel",
        data=failing[0].data if all(result.data for result in failing) else None,
        # What is right alone is not repeated by its name.
        workload=None if cause == _STATE else identity(smallest.spec),
    )


def _smallest(
    tested: TestedImplementation, probe: ModuleType, first: CaseResult
) -> tuple[CaseResult, list[CaseResult]]:
    """Return the failure on the smallest case that a few seconds of shrinking lead to, and all that
    was tried. A case of a probe with OWN_SHAPES is the smallest that there is."""
    results = {first.spec: first}
    if getattr(probe, "OWN_SHAPES", False):
        return first, [first]

    def still_fails(spec: WorkloadSpec) -> bool:
        result = results[spec] = run_case(tested, probe, spec)
        alike = result.status == first.status and _raises(result) == _raises(first)
        return alike and _is_as_bad(result.share, first.share)

    smallest = shrink(first.spec, still_fails, until=own_seconds() + _SHRINKING_S)
    return results[smallest], list(results.values())


def _raises(result: CaseResult) -> bool:
    return (result.reason or "").startswith("raises ")


def _is_as_bad(share: float | None, first: float | None) -> bool:
    """Return whether a smaller case shows the same error, not just rounding a little too large."""
    return share is None or first is None or share >= min(10.0, first / 4)


def _passes_on_fresh_copy(
    tested: TestedImplementation, probe: ModuleType, spec: WorkloadSpec
) -> bool:
    """Return whether the case passes on a copy of the implementation that was never called, and
    its values are right on another: some probes pass on wrong values too.

    Memory is poisoned meanwhile: a result that depends on unwritten memory is not state.
    """
    if not tested.fresh:
        return False
    first, second = (replace(tested, implementation=tested.fresh()) for _ in range(2))
    # Watched anew: what poisons memory is ours, and no replacement by the implementation.
    with framework_of(tested.implementation).poisoned(tested.device), guard.watched():
        return run_case(first, probe, spec).status == "ok" and _is_right(second, spec)


def _advice(
    tested: TestedImplementation,
    probe: ModuleType,
    specs: Sequence[WorkloadSpec],
    excess: float,
    advised: list[Precision],
) -> str | None:
    """Return that a lower precision explains the failing cases, with the line to declare it: TF32
    where all are of float32, or FP8, which must not explain far more. With it in force, errors must
    look like rounding and no query may see the future. `excess` is the largest of their errors, as
    a multiple of the budget that they exceed."""
    for precision in list(advised) or _candidates(tested, specs, excess):
        shares = _shares(tested, probe, specs, precision)
        enough = shares and (not precision.format or min(shares) > _FP8_SHARE)
        if enough and not _sees_future(tested, specs, precision):
            advised[:] = [precision]
            if not precision.format:
                return _TF32
            declared = f'{{"format": "{precision.format}", "scale": "{precision.scale}"}}'
            return _FP8.format(f"FP8 = {declared}")
    return None


def _candidates(
    tested: TestedImplementation, specs: Sequence[WorkloadSpec], excess: float
) -> Iterator[Precision]:
    """Yield precisions that may explain failing cases: TF32, kinds of FP8 whose rounding is in the
    errors, the nearest first, and then e4m3, with the finest scale first."""
    if {spec.dtype for spec in specs} == {"float32"}:
        yield Precision(float32=TF32)
    if excess <= _FP8_EXCESS:
        return
    kinds = [Precision(format=form, scale=scale) for form in FLOAT8 for scale in SCALES]
    left = dict.fromkeys(kinds, 1.0)
    failures, _ = run_again(sorted(specs, key=cost)[-1:], tested.bind)
    for wrong in (each for each in failures if each.tensor == "out"):
        error = np.linalg.norm(wrong.actual - wrong.right)
        for kind in kinds:
            rounded = expected(wrong.workload, precision=kind).rounding.result.out
            left[kind] = np.linalg.norm(wrong.actual - rounded) / error
    near = sorted((kind for kind in kinds if left[kind] < _EXPLAINED), key=lambda kind: left[kind])
    yield from dict.fromkeys([*near, *kinds[: len(SCALES)]])


def _sees_future(
    tested: TestedImplementation, specs: Sequence[WorkloadSpec], precision: Precision
) -> str | None:
    """Return the cause that the causality probe names on failing causal cases, if it fails there
    even by the budget of a precision."""
    probe = plugins.load(plugins.listing("probes")["causality"])
    declared = replace(tested, implementation=replace(tested.implementation, precision=precision))
    causal = sorted({spec for spec in specs if spec.causal and not spec.extras}, key=cost)
    results = (run_case(declared, probe, spec) for spec in causal[-_ASKED:])
    return next((result.cause for result in results if result.status == "failed"), None)


def _shares(
    tested: TestedImplementation,
    probe: ModuleType,
    specs: Sequence[WorkloadSpec],
    precision: Precision,
) -> list[float] | None:
    """Return the shares of their budgets that cases take where a precision is declared; None where
    one of them fails all the same."""
    declared = replace(tested, implementation=replace(tested.implementation, precision=precision))
    shares = []
    for spec in specs:
        result = run_case(declared, probe, spec)
        if result.status != "ok":
            return None
        shares.append(result.share or 0.0)
    return shares


def _is_right(tested: TestedImplementation, spec: WorkloadSpec) -> bool:
    try:
        return judge.is_right(tested.bind(spec))
    except Exception:
        return False
