"""The suite of decode kernels: every probe on its cases, summed up in one measurement for each.

Where a case fails, the smallest that does is named: it is a workload, which repeats it.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType

from msgspec.structs import replace as replace_subject

from assay.captures.inputs import make
from assay.correctness import judge
from assay.correctness.case_result import FAILED, CaseResult, run_case
from assay.correctness.cases import cost
from assay.correctness.decode import limits
from assay.correctness.decode.cases import DecodeCases
from assay.correctness.decode.limits import DecodeLimits
from assay.correctness.program_cost import PROGRAMS
from assay.correctness.reach import decode_reach
from assay.correctness.suite import note, summary
from assay.host import Host
from assay.instruments.own_time import own_seconds
from assay.records import verdicts
from assay.records.schema import Measurement
from assay.subjects.contract import SOURCE
from assay.subjects.decode import CacheReader, DecodeSubject, bind_loaded
from assay.subjects.decode.cache import is_latent
from assay.subjects.outcome import Begin, Unsupported
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import identity

STAGE = "decode_suite"
# Probes of sequences that are run on decode kernels too, each on cases of a few tiles.
SHARED = ("determinism", "unwritten")


@dataclass(frozen=True, kw_only=True)
class TestedReader:
    """A decode kernel with its layout, and the device on which its cases are run."""

    implementation: CacheReader
    host: Host
    device: str
    source = SOURCE

    @property
    def name(self) -> str:
        return self.implementation.name

    def bind(self, spec: WorkloadSpec) -> DecodeSubject:
        return bind_loaded(self.implementation, make(spec), host=self.host, device=self.device)


def generator_for(
    tested: TestedReader, *, seed: int, quick: bool, dtypes: Sequence[str]
) -> tuple[DecodeCases, str | None]:
    """Return the cases of a kernel, in the dtypes that it does not refuse, and its words about one
    that it does; where it refuses all, its cases say so."""
    layout, accepts = tested.implementation.layout, tested.implementation.accepts
    settings = {"seed": seed, "quick": quick, "accepts": accepts}
    plain = DecodeCases(dtypes=tuple(dtypes), latent=False, **settings)
    generator = replace(plain, latent=is_latent(plain.spec(), layout))
    refused: dict[str, str] = {}
    for dtype in dtypes:
        try:
            tested.bind(replace(generator, dtypes=(dtype,)).spec())
        except Unsupported as refusal:
            refused[dtype] = str(refusal)
    if not refused or len(refused) == len(dtypes):
        return generator, None
    words = "; ".join(f"{dtype} was not examined: {text}" for dtype, text in refused.items())
    left = tuple(dtype for dtype in dtypes if dtype not in refused)
    return replace(generator, dtypes=left), words


def run(
    tested: TestedReader,
    probes: Mapping[str, ModuleType],
    generator: DecodeCases,
    *,
    budget_s: float,
    only: Sequence[WorkloadSpec] = (),
) -> Iterator[Begin | Measurement]:
    """Yield a measurement for each probe, on cases inside the limits that are looked for first.
    With `only`, these are the cases of every probe. A probe that has cases left when `budget_s`
    seconds are over is incomplete."""
    PROGRAMS.watch()  # whose interpreter may take long
    within = DecodeLimits() if only else (yield from _limits(tested, generator))
    start = own_seconds()
    passing: list[WorkloadSpec] = []
    for name, probe in probes.items():
        try:
            specs = list(only) or cases_of(name, probe, generator, within)
        except Unsupported as refusal:
            yield replace_subject(judge.unsupported(name, str(refusal)), subject=tested.name)
            continue
        results: list[CaseResult] = []
        for spec in sorted(specs, key=cost):
            if own_seconds() - start > budget_s:
                break
            yield Begin(tested.name, probe=name, case=spec.name)
            results.append(run_case(tested, probe, spec))
        compares = name not in (*SHARED, "neighbours")  # which compare no values
        passing += [each.spec for each in results if compares and each.status == "ok"]
        if any(result.status in FAILED for result in results):
            yield _failure(tested, name, results, planned=len(specs))
            continue
        yield summary(tested, name, results, planned=len(specs), needed=len(specs))
        left_out = dict.fromkeys(r.reason for r in results if r.status == "ok" and r.reason)
        if left_out:
            yield note(tested, verdicts.CONDITIONS, f"{name} leaves out {'; '.join(left_out)}", {})
    if not only:
        yield from decode_reach(tested.name, passing)


def cases_of(
    name: str, probe: ModuleType, generator: DecodeCases, within: DecodeLimits
) -> list[WorkloadSpec]:
    """Return the cases of a probe, brought inside limits; those that are shared with sequences are
    given a few tiles."""
    if name in SHARED:
        specs = generator.by_turns({"key_length": 150}, {"query_length": 2, "key_length": 70})
    else:
        specs = probe.cases(generator)
    return list(dict.fromkeys(within.fitted(spec, turn) for turn, spec in enumerate(specs)))


def _limits(
    tested: TestedReader, generator: DecodeCases
) -> Generator[Begin | Measurement, None, DecodeLimits]:
    """Yield the limits in words, where there are some; returns them."""
    own, refusals = yield from limits.find(tested.name, tested.bind, generator)
    if words := own.words:
        texts = ", ".join(f"{text} ({refusals[name]})" for name, text in words.items())
        yield note(tested, verdicts.LIMITS, f"it takes {texts}", own.as_dict)
    return own


def _failure(
    tested: TestedReader, name: str, results: Sequence[CaseResult], *, planned: int
) -> Measurement:
    """Return the measurement of a failing probe."""
    failing = [result for result in results if result.status in FAILED]
    first = failing[0]  # cases are run from cheap to costly
    ran = [result for result in results if result.status != "unsupported"]
    return Measurement(
        subject=tested.name,
        metric=name,
        value=first.share,
        unit="ratio",
        status=first.status,
        reason=f"{first.reason}; smallest failing case {first.spec.name}"
        + verdicts.failing(len(failing), len(ran), planned - len(results)),
        cause=first.cause,
        samples=[result.share for result in results if result.share is not None],
        source=tested.source,
        level="kernel",
        workload=identity(first.spec),
    )
