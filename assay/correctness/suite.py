"""The correctness suite: every probe on its cases, summed up in one measurement for each probe.

Its value is the share of the error budget that the worst case takes. Where a case fails, it names
the smallest case that still fails, what is wrong there and the likely cause in words. All cases are
inside the limits of the implementation, declared or found. A probe that ran out of time before it
ran the smallest set of its cases is incomplete, whatever those it ran showed.
"""

import sys
import time
import traceback
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType

from assay.correctness import domain, judge, second_process
from assay.correctness.cases import CaseGenerator, cost, in_order, inside
from assay.correctness.diagnosis.cause import likely_cause
from assay.correctness.shrink import shrink
from assay.correctness.tested import TestedImplementation
from assay.errors import BadInput
from assay.instruments.out_of_memory import ran_out
from assay.instruments.own_time import own_seconds
from assay.plugins import Plugin
from assay.records import verdicts
from assay.records.schema import Measurement, Status
from assay.subjects.outcome import (
    Begin,
    Unsupported,
    apply_probe,
    device_lost,
    lack_of_memory,
)
from assay.subjects.sequence import framework_of
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import identity

_SHRINKING_S = 6.0
_STATE = (
    "state is carried from call to call, such as a stale buffer or the result of an earlier call: "
    "a freshly loaded copy is right on the same case"
)
_ENOUGH_FAILURES = 12  # of a probe, to diagnose the cause from
_FAILED = ("failed", "oom")
_SHARED_TIME = 0.3  # of the budget, for probes that come first, which pay for loading and compiling
_PATIENCE = 2.0  # budgets, within which the smallest set of every probe's cases is run
_DIAGNOSED = ("accuracy", "gradients", "shapes", "stability", "options")


@dataclass(frozen=True, kw_only=True)
class CaseResult:
    """Outcome of one probe on one case."""

    spec: WorkloadSpec
    status: Status
    share: float | None = None  # of the error budget
    reason: str | None = None
    cause: str | None = None


def makes_cases(probe: Plugin) -> bool:
    """Return whether a probe belongs to the suite: one of correctness that makes its own cases."""
    return probe.literals["STAGE"] == "check" and "cases" in probe.functions


def in_second_process(probe: ModuleType) -> bool:
    """Return whether a probe compares its cases with those of another process."""
    return getattr(probe, "IN_SECOND_PROCESS", False)


def run(
    tested: TestedImplementation,
    probes: Mapping[str, ModuleType],
    generator: CaseGenerator,
    *,
    budget_s: float,
    find_limits: bool = True,
) -> Iterator[Begin | Measurement]:
    """Yield a measurement for each probe, those with few cases first; one that waits for the second
    process comes last.

    `budget_s` is divided among the probes by the number of their cases, but for the shared part.
    """
    if find_limits:
        tested = yield from _with_limits(tested, generator)
    limits = tested.implementation.limits
    cases = {
        name: in_order(inside(probe.cases(generator), limits, tested.takes))
        for name, probe in probes.items()
    }
    shared = [
        spec for n, probe in probes.items() if in_second_process(probe) for spec in cases[n][0]
    ]
    if tested.second and shared:
        tested = replace(tested, in_second_process=tested.second(shared))
    total, planned, start = sum(len(specs) for specs, _ in cases.values()), 0, own_seconds()
    passing: dict[str, list[WorkloadSpec]] = {}
    for name in sorted(probes, key=lambda n: (in_second_process(probes[n]), len(cases[n][0]))):
        specs, needed = cases[name]
        planned += len(specs)
        until = start + budget_s * (_SHARED_TIME + (1 - _SHARED_TIME) * planned / max(1, total))
        if not specs:
            continue  # the probe does not apply here
        results: list[CaseResult] = []
        for spec in specs:
            judged = sum(result.status != "unsupported" for result in results)
            last = until if judged >= needed else start + _PATIENCE * budget_s
            if results and own_seconds() > last:
                break
            yield Begin(tested.name, probe=name, case=spec.name)
            results.append(_run_case(tested, probes[name], spec))
            if sum(result.status in _FAILED for result in results) >= _ENOUGH_FAILURES:
                break
        passing[name] = [result.spec for result in results if result.status == "ok"]
        if any(result.status in _FAILED for result in results):
            yield _failure(tested, name, probes[name], results, _evidence(name, passing))
        else:
            yield _summary(tested, name, results, planned=len(specs), needed=needed)


def _with_limits(
    tested: TestedImplementation, generator: CaseGenerator
) -> Generator[Begin | Measurement, None, TestedImplementation]:
    """Yield the limits that it has, declared or found; returns it with these limits."""
    implementation = tested.implementation
    framework = framework_of(implementation)
    with second_process.repeatable(framework):
        found = yield from domain.find(
            tested.name,
            tested.bind,
            implementation.limits,
            generator.dtypes,
            layouts=framework.layouts(),
            quick=generator.quick,
        )
    if found.reason:
        yield Measurement(
            subject=tested.name, metric=verdicts.LIMITS, value=None, unit="", reason=found.reason
        )
    return replace(tested, implementation=replace(implementation, limits=found.limits))


def _evidence(name: str, passing: Mapping[str, list[WorkloadSpec]]) -> list[WorkloadSpec]:
    """Return the cases whose values are known to be right, for the diagnosis of the probe `name`.

    Other probes pass on wrong values too. Of those that compare values, accuracy says nothing of
    gradients, and gradients nothing of the output.
    """
    silent = "gradients" if name == "accuracy" else "accuracy"
    speaking = [other for other in _DIAGNOSED if other == name or other != silent]
    return [spec for other in speaking for spec in passing.get(other, ())]


def _run_case(tested: TestedImplementation, probe: ModuleType, spec: WorkloadSpec) -> CaseResult:
    """Run one probe on one case; an exception of the implementation is an outcome too."""
    try:
        with second_process.repeatable(framework_of(tested.implementation)):
            call = tested.bind(spec)
            measurements = apply_probe(probe, call, call.workload, tested.host)
    except Unsupported as refusal:
        return CaseResult(spec=spec, status="unsupported", reason=str(refusal))
    except (judge.MalformedResult, BadInput) as error:
        return CaseResult(spec=spec, status="failed", reason=str(error))
    except Exception as error:
        if device_lost(error):
            raise  # nothing works in this process any more; a new one goes on with the others
        traceback.print_exception(error, file=sys.stderr)
        first_line = str(error).strip().partition("\n")[0][:300]
        reason = f"raises {type(error).__name__}: {first_line}"
        status: Status = "failed"
        if ran_out(error):
            status, reason = "oom", lack_of_memory(error, reason)[1]  # not run is not passed over
        return CaseResult(spec=spec, status=status, reason=reason)
    return _case_result(spec, measurements)


def _case_result(spec: WorkloadSpec, measurements: Sequence[Measurement]) -> CaseResult:
    """Return the first failure among a case's measurements, or else the largest share."""
    failed = next((m for m in measurements if m.status not in ("ok", "unsupported")), None)
    if failed:
        return CaseResult(
            spec=spec,
            status=failed.status,
            share=failed.value if failed.unit == "ratio" else None,
            reason=failed.reason,
            cause=failed.cause,
        )
    shares = [m.value for m in measurements if m.unit == "ratio" and m.value is not None]
    if not shares:
        reason = measurements[0].reason if measurements else "the probe measured nothing"
        return CaseResult(spec=spec, status="unsupported", reason=reason)
    return CaseResult(spec=spec, status="ok", share=max(shares))


def _summary(
    tested: TestedImplementation,
    name: str,
    results: Sequence[CaseResult],
    *,
    planned: int,
    needed: int,
) -> Measurement:
    """Return the measurement of a probe without a failing case."""
    shares = [result.share for result in results if result.share is not None]
    refused = [result for result in results if result.status == "unsupported"]
    notes = [f"{len(refused)} cases unsupported: {refused[0].reason}"] if refused else []
    status: Status = "ok"
    if len(results) < min(planned, needed + len(refused)):
        status, notes = "timeout", [verdicts.incomplete(len(results), planned), *notes]
    elif len(results) < planned:
        notes = [verdicts.partial(len(results), planned), *notes]
    elif not shares:
        return Measurement(
            subject=tested.name,
            metric=name,
            value=None,
            unit="ratio",
            status="unsupported",
            reason="; ".join(notes) or "no case applies here",
        )
    return Measurement(
        subject=tested.name,
        metric=name,
        value=max(shares, default=None),
        unit="ratio",
        samples=shares,
        status=status,
        reason="; ".join(notes) or None,
        source=judge.SOURCE,
        level="kernel",
    )


def _failure(
    tested: TestedImplementation,
    name: str,
    probe: ModuleType,
    results: Sequence[CaseResult],
    passing: Sequence[WorkloadSpec],
) -> Measurement:
    """Return the measurement of a failing probe: its smallest failing case and the likely cause."""
    failing = [result for result in results if result.status in _FAILED]
    smallest = _smallest(tested, probe, min(failing, key=lambda result: cost(result.spec)))
    ran = [result for result in results if result.status != "unsupported"]
    cause = smallest.cause
    if not cause and _passes_on_fresh_copy(tested, probe, smallest.spec):
        cause = _STATE
    if not cause and name in _DIAGNOSED:
        cause = _diagnosis(tested, [result.spec for result in failing], passing)
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
        source=judge.SOURCE,
        level="kernel",
        workload=identity(smallest.spec),
    )


def _smallest(tested: TestedImplementation, probe: ModuleType, first: CaseResult) -> CaseResult:
    """Return the failure on the smallest case that a few seconds of shrinking lead to."""
    results = {first.spec: first}

    def still_fails(spec: WorkloadSpec) -> bool:
        result = results[spec] = _run_case(tested, probe, spec)
        return result.status == first.status and _is_as_bad(result.share, first.share)

    return results[shrink(first.spec, still_fails, until=time.monotonic() + _SHRINKING_S)]


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
    with framework_of(tested.implementation).poisoned(tested.device):
        first, second = (replace(tested, implementation=tested.fresh()) for _ in range(2))
        return _run_case(first, probe, spec).status == "ok" and _is_right(second, spec)


def _is_right(tested: TestedImplementation, spec: WorkloadSpec) -> bool:
    try:
        return judge.is_right(tested.bind(spec))
    except Exception:
        return False


def _diagnosis(
    tested: TestedImplementation, failing: Sequence[WorkloadSpec], passing: Sequence[WorkloadSpec]
) -> str | None:
    """Return the likely cause; a broken implementation may break the search for it too."""
    try:
        return likely_cause(failing, passing, tested.bind)
    except Exception as error:
        traceback.print_exception(error, file=sys.stderr)
        return None
