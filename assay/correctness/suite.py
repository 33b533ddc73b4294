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
from assay.correctness.program_cost import PROGRAMS, ProgramCost
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

# Probes whose first case is run as written, where the others are compiled whole.
_AS_WRITTEN = ("accuracy", "gradients", "determinism", "purity")
_ENOUGH_FAILURES = 12  # of a probe, to diagnose the cause from
_SHARED_TIME = 0.3  # of the budget, for probes that come first, which pay for loading and compiling
_ENDED_PROCESSES = 3  # by cases of a probe, after which no further one is run
_PATIENCE = 2.0  # budgets, within which the smallest set of every probe's cases is run
# Under an interpreter: the share of the budget, of which nothing is exceeded, and the fewest cases
# of a probe for a word about it.
_INTERPRETED, _FEWEST_INTERPRETED = 0.25, 4


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
    programs = None if only else _program_cost(tested)
    patience = 1.0 if programs else _PATIENCE
    budget_s *= _INTERPRETED if programs else 1.0
    spent = _SpentTime()
    as_one = None  # program, where it compiles anew at each call
    if find_limits and not only:
        tested, own_domain = yield from _with_limits(tested, generator, programs)
        shapes = own_domain.shapes
        as_one = _as_one_program(tested, shapes) if own_domain.compiles_each_call else None
    if conditions := dict(_conditions(tested, generator, shapes, as_one=bool(as_one))):
        words = "; ".join(text for text, _ in conditions.values())
        data = {name: value for name, (_, value) in conditions.items()}
        yield note(tested, verdicts.CONDITIONS, words, data)
    cases = {
        name: in_order(only) if only else _cases(tested, probe, generator, shapes, programs)
        for name, probe in probes.items()
    }
    beside = [cases[n][0] for n, probe in probes.items() if in_second_process(probe)]
    shared = [spec for specs in beside for spec in (specs[:1] if as_one else specs)]
    if tested.second and shared:
        tested = replace(tested, in_second_process=tested.second(shared))
    total, planned = sum(len(specs) for specs, _ in cases.values()), 0
    spent = spent if programs else _SpentTime(compiles=bool(shapes))
    left: dict[str, int] = {}  # cases of each probe that an interpreter has no time for
    passing: dict[str, list[WorkloadSpec]] = {}
    advised: list[Precision] = []
    for name in sorted(probes, key=lambda n: (in_second_process(probes[n]), len(cases[n][0]))):
        specs, needed = cases[name]
        needed = min(needed, _FEWEST_INTERPRETED) if programs else needed
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
            last_s = until_s if judged >= needed else patience * budget_s
            if results and spent.seconds > last_s:
                break
            yield Begin(tested.name, probe=name, case=spec.name)
            with spent.on(name, spec):
                quicker = None if name in _AS_WRITTEN and not results else as_one
                result = run_case(quicker or tested, probes[name], spec)
                if quicker and result.status != "ok":  # so it says nothing of what was written
                    result = run_case(tested, probes[name], spec)
                results.append(result)
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
        elif programs and len(results) < min(needed, len(specs)):
            left[name] = len(specs)
            text = f"left to a GPU: Triton's interpreter ran {len(results)} of {len(specs)} cases"
            yield replace_fields(judge.unsupported(name, text), subject=tested.name)
        else:
            left[name] = len(specs) - len(results)
            yield summary(tested, name, results, planned=len(specs), needed=needed)
    if programs:
        yield _left_to_a_gpu(tested, programs, left)
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


def _as_one_program(
    tested: TestedImplementation, shapes: Sequence[WorkloadSpec]
) -> TestedImplementation | None:
    """Return the implementation as its framework compiles it whole, as it is timed; None where that
    cannot be had, or raises."""
    implementation = tested.implementation
    compiled = getattr(framework_of(implementation), "compiled", None)
    if compiled is None or implementation.prepare:
        return None
    if tested.device == "cpu" and hasattr(framework_of(implementation), "compile_quickly"):
        framework_of(implementation).compile_quickly()
    whole = replace(implementation, attention=compiled(implementation.attention))
    as_one = replace(tested, implementation=whole)
    try:
        as_one.bind(shapes[0])()
    except Exception:  # such as a branch on a value, which is not known when it is compiled
        return None
    return as_one


def _program_cost(tested: TestedImplementation) -> ProgramCost | None:
    """Return the cost of cases of an interpreted kernel, whose launches are counted on a copy that
    no case is run on; None for any other."""
    if not tested.implementation.interpreted:
        return None
    PROGRAMS.watch()
    copy = replace(tested, implementation=tested.fresh()) if tested.fresh else tested
    return ProgramCost(bind=copy.bind)


def _left_to_a_gpu(
    tested: TestedImplementation, programs: ProgramCost, left: Mapping[str, int]
) -> Measurement:
    """Return what an interpreter had no time for, in words and as data."""
    many = {name: count for name, count in left.items() if count}
    text = (
        f"Triton's interpreter took {1e3 * programs.program_s:.2g} ms for each of "
        f"{PROGRAMS.run:,} programs"
    )
    if programs.made_smaller:
        text += f"; {programs.made_smaller:,} cases are smaller than on a GPU"
    if many:
        counts = ", ".join(f"{count:,} of {name}" for name, count in many.items())
        text += f"; left to a GPU are {sum(many.values()):,} cases ({counts})"
    return note(tested, verdicts.CONDITIONS, text, {"left_to_a_gpu": many})


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

    compiles: bool = False
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
    programs: ProgramCost | None,
) -> tuple[list[WorkloadSpec], int]:
    """Return the cases of a probe in order, and how many from the first must run."""
    specs = inside(probe.cases(generator), tested.implementation.limits, tested.takes)
    if shapes and not getattr(probe, "OWN_SHAPES", False):
        specs = brought_to(shapes, specs)
    if programs:
        return in_order(programs.fitted(specs, tested.implementation.limits), programs.programs)
    return in_order(specs)


def _with_limits(
    tested: TestedImplementation, generator: CaseGenerator, programs: ProgramCost | None
) -> Generator[Begin | Measurement, None, tuple[TestedImplementation, domain.Domain]]:
    """Yield the limits that it has, declared or found; returns it with these limits, and what else
    was seen of it."""
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
            cost=programs,
        )
    if own_domain.reason:
        yield note(tested, verdicts.LIMITS, own_domain.reason, own_domain.limits.as_dict)
    limited = replace(implementation, limits=own_domain.limits)
    return replace(tested, implementation=limited), own_domain


def _conditions(
    tested: TestedImplementation,
    generator: CaseGenerator,
    shapes: Sequence[WorkloadSpec],
    *,
    as_one: bool,
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
    if as_one:
        text = (
            "it compiles anew at each call, so most cases are run through jax.jit, as a bench "
            "times it, and on a CPU with few of XLA's optimizations; "
            'with attention = jax.jit(attention, static_argnames=("causal", "scale")) it '
            "compiles once for each shape"
        )
        yield "compiled_whole", (text, "jax.jit")


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
