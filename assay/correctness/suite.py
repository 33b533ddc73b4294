"""The correctness suite: every probe on its cases, summed up in one measurement for each probe.

Its value is the share of the error budget that the worst case takes. Where a case fails, it names
the smallest case that still fails, what is wrong there and the likely cause in words. All cases are
inside the limits of the implementation, declared or found. A probe that ran out of time before it
ran the smallest set of its cases is incomplete, whatever those it ran showed.

The cases of a kernel that compiles for each shape share a few of them, and what it compiles does
not count against the budget.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from types import ModuleType
from typing import Any

from msgspec.structs import replace as replace_fields

from assay.attention import interpreted
from assay.attention.precision import Precision
from assay.correctness import domain, judge, second_process
from assay.correctness.case_result import FAILED, CaseResult, EndedCase, run_case
from assay.correctness.cases import CaseGenerator, in_order, inside
from assay.correctness.diagnosis.cause import DIAGNOSED, evidence
from assay.correctness.failure import failure
from assay.correctness.reach import reach
from assay.correctness.shared_shapes import brought_to
from assay.correctness.tested import TestedImplementation
from assay.instruments.own_time import own_seconds
from assay.plugins import Plugin
from assay.records import verdicts
from assay.records.schema import Measurement, Status
from assay.subjects.outcome import Begin
from assay.subjects.sequence import framework_of
from assay.workloads.spec import WorkloadSpec

_ENOUGH_FAILURES = 12  # of a probe, to diagnose the cause from
_SHARED_TIME = 0.3  # of the budget, for probes that come first, which pay for loading and compiling
_ENDED_PROCESSES = 3  # by cases of a probe, after which no further one is run
_PATIENCE = 2.0  # budgets, within which the smallest set of every probe's cases is run


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
    only: Sequence[WorkloadSpec] = (),
    ended: Sequence[EndedCase] = (),
) -> Iterator[Begin | Measurement]:
    """Yield a measurement for each probe, those with few cases first; one that waits for the second
    process comes last. With `only`, these are the cases of every probe. Cases in `ended` fail.

    `budget_s` is divided among the probes by the number of their cases, but for the shared part.
    """
    tested, generator = _compiling_once(tested), _for_interpreter(tested, generator)
    shapes: Sequence[WorkloadSpec] = ()
    if find_limits and not only:
        tested, shapes = yield from _with_limits(tested, generator)
    if conditions := dict(_conditions(tested, generator, shapes)):
        words = "; ".join(text for text, _ in conditions.values())
        data = {name: value for name, (_, value) in conditions.items()}
        yield note(tested, verdicts.CONDITIONS, words, data)
    cases = {
        name: in_order(only) if only else _cases(tested, probe, generator, shapes)
        for name, probe in probes.items()
    }
    shared = [
        spec for n, probe in probes.items() if in_second_process(probe) for spec in cases[n][0]
    ]
    if tested.second and shared:
        tested = replace(tested, in_second_process=tested.second(shared))
    total, planned = sum(len(specs) for specs, _ in cases.values()), 0
    spent = _SpentTime(compiles=bool(shapes))
    passing: dict[str, list[WorkloadSpec]] = {}
    advised: list[Precision] = []
    for name in sorted(probes, key=lambda n: (in_second_process(probes[n]), len(cases[n][0]))):
        specs, needed = cases[name]
        planned += len(specs)
        until_s = budget_s * (_SHARED_TIME + (1 - _SHARED_TIME) * planned / max(1, total))
        if not specs:
            continue  # the probe does not apply here
        results = _ended_results(specs, [case for case in ended if case.probe == name])
        done = {result.spec for result in results}
        for spec in specs if len(results) < _ENDED_PROCESSES else ():
            if spec in done:
                continue
            judged = sum(result.status != "unsupported" for result in results)
            last_s = until_s if judged >= needed else _PATIENCE * budget_s
            if results and spent.seconds > last_s:
                break
            yield Begin(tested.name, probe=name, case=spec.name)
            with spent.on(name, spec):
                results.append(run_case(tested, probes[name], spec))
            if sum(result.status in FAILED for result in results) >= _ENOUGH_FAILURES:
                break
            if results[-1].status == "refused":
                break
        passing[name] = [result.spec for result in results if result.status == "ok"]
        if any(result.status in FAILED for result in results):
            # The search for the cause has a time of its own.
            yield Begin(tested.name, probe=name, case=results[-1].spec.name)
            known = evidence(name, passing)
            settings = {"planned": len(specs), "advised": advised}
            yield failure(tested, name, probes[name], results, known, **settings)
        elif results[-1].status == "refused":
            held = replace_fields(
                judge.unsupported(name, results[-1].reason or ""), subject=tested.name
            )
            yield replace_fields(held, status="refused", data=results[-1].data)
        else:
            yield summary(tested, name, results, planned=len(specs), needed=needed)
    if not only:
        yield from reach(tested.name, _compared(passing, backward=tested.has_backward))


def _compared(
    passing: Mapping[str, list[WorkloadSpec]], *, backward: bool
) -> dict[str, list[WorkloadSpec]]:
    """Return the cases that passed by the passes whose values their probes compare."""

    def of(*silent: str) -> list[WorkloadSpec]:
        return [s for name in DIAGNOSED if name not in silent for s in passing.get(name, ())]

    return {
        "forward": of("gradients"),
        "backward": of("accuracy") if backward else [],
        "causal": passing.get("causality", []),
    }


def _ended_results(specs: Sequence[WorkloadSpec], ended: Sequence[EndedCase]) -> list[CaseResult]:
    """Return the failures of cases that ended an earlier process."""
    by_name = {spec.name: spec for spec in specs}
    return [
        CaseResult(
            spec=by_name[case.case],
            status="failed",
            reason=case.reason,
            cause=case.cause,
            ended=True,
        )
        for case in ended
        if case.case in by_name
    ]


@dataclass(kw_only=True)
class _SpentTime:
    """Seconds that count against the budget: of a kernel that compiles for each shape, the first
    case of a probe in a shape counts as much as the second one takes."""

    compiles: bool
    start: float = field(default_factory=own_seconds)
    compiling_s: float = 0.0
    first_s: dict[tuple[str, WorkloadSpec], float | None] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return own_seconds() - self.start - self.compiling_s

    @contextmanager
    def on(self, probe: str, spec: WorkloadSpec) -> Iterator[None]:
        start = own_seconds()
        yield
        elapsed_s, key = own_seconds() - start, (probe, replace(spec, seed=0, values="normal"))
        if not self.compiles:
            return
        if key not in self.first_s:
            self.first_s[key] = elapsed_s
            self.compiling_s += elapsed_s
        elif first_s := self.first_s[key]:
            self.first_s[key] = None
            self.compiling_s -= min(first_s, elapsed_s)


def _for_interpreter(tested: TestedImplementation, generator: CaseGenerator) -> CaseGenerator:
    """Leave out the shapes of models, which take Triton's interpreter too long, and the dtype that
    it gets wrong, unless there is no other."""
    if not tested.implementation.interpreted:
        return generator
    right = tuple(d for d in generator.dtypes if d != interpreted.WRONG_DTYPE)
    return replace(generator, dtypes=right or generator.dtypes, models=False)


def _compiling_once(tested: TestedImplementation) -> TestedImplementation:
    """Keep what `prepare` gives for a workload, for all cases that differ in their values only."""
    implementation = tested.implementation
    if not implementation.prepare:
        return tested
    return replace(
        tested, implementation=replace(implementation, prepare=cache(implementation.prepare))
    )


def _cases(
    tested: TestedImplementation,
    probe: ModuleType,
    generator: CaseGenerator,
    shapes: Sequence[WorkloadSpec],
) -> tuple[list[WorkloadSpec], int]:
    """Return the cases of a probe in order, and how many from the first must run."""
    specs = inside(probe.cases(generator), tested.implementation.limits, tested.takes)
    if shapes and not getattr(probe, "OWN_SHAPES", False):
        specs = brought_to(shapes, specs)
    return in_order(specs)


def _with_limits(
    tested: TestedImplementation, generator: CaseGenerator
) -> Generator[Begin | Measurement, None, tuple[TestedImplementation, Sequence[WorkloadSpec]]]:
    """Yield the limits that it has, declared or found; returns it with these limits, and the
    shapes that its cases share where it compiles for each."""
    implementation = tested.implementation
    framework = framework_of(implementation)
    with second_process.repeatable(framework):
        own_domain = yield from domain.find(
            tested.name,
            tested.bind,
            implementation.limits,
            generator.dtypes,
            takes=tested.takes,
            layouts=framework.layouts(),
            quick=generator.quick,
            gpu=generator.gpu,
        )
    if own_domain.reason:
        yield note(tested, verdicts.LIMITS, own_domain.reason, own_domain.limits.as_dict)
    limited = replace(implementation, limits=own_domain.limits)
    return replace(tested, implementation=limited), own_domain.shapes


def _conditions(
    tested: TestedImplementation, generator: CaseGenerator, shapes: Sequence[WorkloadSpec]
) -> Iterator[tuple[str, tuple[str, Any]]]:
    """Yield what else the verdicts depend on: its name, and it in words and as data."""
    precision = tested.implementation.precision
    for text in dict.fromkeys(map(precision.words, generator.dtypes)):
        if text:
            yield precision.declared[0], (text, precision.declared[1])
    if tested.implementation.interpreted:
        text = f"{interpreted.WRONG_DTYPE} was not examined: {interpreted.REFUSAL}"
        yield "not_examined", (text, [interpreted.WRONG_DTYPE])
    if not generator.models:
        text = "heads, batches and causal lengths of models are left to a GPU"
        yield "left_to_gpu", (text, ["heads", "batch", "length"])
    if shapes:
        text = f"it compiles for each shape, so all cases share {len(shapes)} of them"
        yield "shared_shapes", (text, [spec.name for spec in shapes])


def note(tested: TestedImplementation, metric: str, text: str, data: dict[str, Any]) -> Measurement:
    """Return words that stand beside verdicts, with the same as data."""
    return Measurement(
        subject=tested.name, metric=metric, value=None, unit="", reason=text, data=data
    )


def summary(
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
    notes = [verdicts.unsupported(len(refused), refused[0].reason)] if refused else []
    status: Status = "ok"
    if len(results) < min(planned, needed + len(refused)):
        status, notes = "timeout", [verdicts.incomplete(len(results), planned), *notes]
    elif len(shares) < len(refused) or not shares:  # too few for a verdict
        return Measurement(
            subject=tested.name,
            metric=name,
            value=None,
            unit="ratio",
            status="unsupported",
            reason="; ".join(notes) or "no case applies here",
        )
    elif len(results) < planned:
        notes = [verdicts.partial(len(results), planned), *notes]
    return Measurement(
        subject=tested.name,
        metric=name,
        value=max(shares, default=None),
        unit="ratio",
        samples=shares,
        status=status,
        reason="; ".join(notes) or None,
        source=tested.source,
        level="kernel",
    )
