"""A failing probe: its smallest failing case, and the likely cause in words."""

import time
from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType

from assay.attention.precision import TF32
from assay.correctness import judge
from assay.correctness.case_result import FAILED, CaseResult, run_case
from assay.correctness.cases import cost
from assay.correctness.diagnosis.cause import DIAGNOSED, likely_cause
from assay.correctness.shrink import shrink
from assay.correctness.tested import TestedImplementation
from assay.records import verdicts
from assay.records.schema import Measurement
from assay.subjects.sequence import framework_of
from assay.workloads.spec import WorkloadSpec
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


def failure(
    tested: TestedImplementation,
    name: str,
    probe: ModuleType,
    results: Sequence[CaseResult],
    passing: Sequence[WorkloadSpec],
) -> Measurement:
    """Return the measurement of a failing probe: its smallest failing case and the likely cause."""
    failing = [result for result in results if result.status in FAILED]
    # Wrong values say more than an error: of a dtype that raises, other probes tell.
    first = min(failing, key=lambda result: (_raises(result), cost(result.spec)))
    smallest, tried = _smallest(tested, probe, first)
    ran = [result for result in results if result.status != "unsupported"]
    cause = smallest.cause
    if not cause and _passes_on_fresh_copy(tested, probe, smallest.spec):
        cause = _STATE
    if not cause and name in DIAGNOSED:
        known = {r.spec: r.status == "ok" for r in tried if r.status in (*FAILED, "ok")}
        # The smallest is among them: no cause may stand beside a case that contradicts it.
        wrong = [result.spec for result in (*failing, smallest)]
        cause = likely_cause(wrong, passing, tested.bind, known)
        # No mistake is known: only rounding, where it shows, or nothing.
        unknown = not cause or "rounding" in cause or cause.startswith("it fails only ")
        if unknown and _holds_in_tf32(tested, probe, wrong):
            cause = _TF32
    return Measurement(
        subject=tested.name,
        metric=name,
        value=smallest.share,
        unit="ratio",
        status=failing[0].status,
        reason=f"{smallest.reason}; smallest failing case {smallest.spec.name}"
        + verdicts.failing(len(failing), len(ran)),
        cause=cause,
        samples=[result.share for result in results if result.share is not None],
        source=tested.source,
        level="kernel",
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

    smallest = shrink(first.spec, still_fails, until=time.monotonic() + _SHRINKING_S)
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
    with framework_of(tested.implementation).poisoned(tested.device):
        return run_case(first, probe, spec).status == "ok" and _is_right(second, spec)


def _holds_in_tf32(
    tested: TestedImplementation, probe: ModuleType, specs: Sequence[WorkloadSpec]
) -> bool:
    """Return whether the failing cases are all of float32 and hold where TF32 is declared."""
    if {spec.dtype for spec in specs} != {"float32"}:
        return False
    declared = replace(tested, implementation=replace(tested.implementation, float32=TF32))
    return all(run_case(declared, probe, spec).status == "ok" for spec in specs)


def _is_right(tested: TestedImplementation, spec: WorkloadSpec) -> bool:
    try:
        return judge.is_right(tested.bind(spec))
    except Exception:
        return False
