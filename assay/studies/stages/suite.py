"""Correctness of each implementation on the cases that every probe makes itself."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import msgspec

from assay import host, plugins
from assay.attention import contract
from assay.correctness import second_process, suite
from assay.correctness.case_result import EndedCase
from assay.correctness.cases import QUICK_CASES
from assay.correctness.tested import TestedImplementation, case_generator
from assay.errors import BadInput
from assay.instruments import guard
from assay.instruments.guard import Tampered
from assay.records.schema import Measurement
from assay.studies.cell import Cell, options_of, settings_of
from assay.studies.study import Study
from assay.studies.workload_cells import checked_dtypes, probes_of, workloads
from assay.subjects.outcome import Begin, outcome_of
from assay.workloads.spec import WorkloadSpec

AFTER = ("host",)
FAILS_ON = ("failed", "oom", "timeout")
REUSABLE_H = 24


@dataclass(frozen=True, kw_only=True)
class SuiteSettings:
    """The random cases of each implementation, and the time that its probes share."""

    seed: int
    dtypes: tuple[str, ...]
    cases: int
    budget_s: float
    quick: bool
    find_limits: bool = True
    workloads: tuple[WorkloadSpec, ...] = ()  # cases of every probe, instead of its own
    ended: tuple[EndedCase, ...] = ()  # of earlier processes of this cell


def cells(study: Study) -> list[Cell]:
    """One cell for each implementation, in the dtypes of WORKLOADS where these are named; in a
    study of this stage alone they are the cases."""
    # Where probes of cost alone are named, all of correctness are meant: no speed without a check.
    every = replace(study, probes=tuple(plugins.listing("probes", study.plugin_folders)))
    names = _suite_probes(study) or (_suite_probes(every) if len(study.stages) > 1 else ())
    quick = study.suite_quick
    settings = SuiteSettings(
        seed=study.seed,
        dtypes=checked_dtypes(study),
        cases=min(study.suite_cases, QUICK_CASES) if quick else study.suite_cases,
        budget_s=study.suite_budget_s,
        quick=quick,
        workloads=tuple(workloads(study)) if study.workloads and len(study.stages) == 1 else (),
    )
    return [
        Cell(
            name=f"suite/{subject}",
            subjects=(subject,),
            probes=names,
            device=study.device,
            options=options_of(settings),
        )
        for subject in (study.implementations if names else ())
    ]


def _suite_probes(study: Study) -> tuple[str, ...]:
    probes = probes_of(study, "check").items()
    return tuple(name for name, probe in probes if suite.makes_cases(probe))


def run(cell: Cell) -> Iterator[Begin | Measurement]:
    """A verdict for each probe on the cell's one subject, which may replace nothing of ours."""
    with guard.watched():
        yield from _run(cell)


def _run(cell: Cell) -> Iterator[Begin | Measurement]:
    (subject,) = cell.subjects
    folders, settings = cell.plugin_folders, settings_of(cell, SuiteSettings)
    _make_xla_repeatable()
    yield Begin(subject)
    try:
        probes = {n: plugins.load(plugins.find("probes", n, folders)) for n in cell.probes}
        with guard.refusing():
            implementation = contract.load(subject, folders)
    except (BadInput, Tampered) as error:
        failure = outcome_of(error, subject=subject, metric="load")
        metrics = cell.probes if isinstance(error, Tampered) else ("load",)
        yield from (msgspec.structs.replace(failure, metric=name) for name in metrics)
        return
    generator = case_generator(
        implementation,
        seed=settings.seed,
        count=settings.cases,
        quick=settings.quick,
        device=cell.device,
        dtypes=settings.dtypes,
    )
    tested = TestedImplementation(
        implementation=implementation,
        host=host.inspect(commit=False),
        device=cell.device,
        second=partial(second_process.start, subject, device=cell.device, folders=folders),
        fresh=lambda: contract.load(subject, folders),
    )
    yield from suite.run(
        tested,
        probes,
        generator,
        budget_s=settings.budget_s,
        find_limits=settings.find_limits,
        only=settings.workloads,
        ended=settings.ended,
    )


def _make_xla_repeatable() -> None:
    """XLA tunes its matrix products anew in each process, and the winner decides the order of
    summation. Where bits are compared it must not; where speed is measured it may."""
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_gpu_deterministic_ops" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --xla_gpu_deterministic_ops=true".strip()
