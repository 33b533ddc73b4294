"""Correctness of each decode kernel of DECODERS, on cases that its probes make themselves."""

from collections.abc import Iterator
from dataclasses import dataclass

from assay import host, plugins
from assay.correctness.decode import suite
from assay.correctness.decode.suite import TestedReader
from assay.errors import BadInput
from assay.records.schema import Measurement
from assay.records.verdicts import CONDITIONS
from assay.studies.cell import Cell, options_of, settings_of
from assay.studies.study import Study
from assay.studies.workload_cells import checked_dtypes, probes_of, workloads
from assay.subjects import decode
from assay.subjects.decode import names
from assay.subjects.outcome import Begin, outcome_of
from assay.workloads.spec import WorkloadSpec

AFTER = ("host",)
FAILS_ON = ("failed", "oom", "timeout")
REUSABLE_H = 24


@dataclass(frozen=True, kw_only=True)
class DecodeSuiteSettings:
    """Cases of each kernel, and the time that its probes share."""

    seed: int
    dtypes: tuple[str, ...]
    budget_s: float
    quick: bool
    workloads: tuple[WorkloadSpec, ...] = ()  # cases of every probe, instead of its own


def cells(study: Study) -> list[Cell]:
    """One cell for each kernel, in the dtypes of WORKLOADS where these are named; in a study of
    this stage alone they are the cases."""
    named = tuple(workloads(study)) if study.workloads else ()
    shared = probes_of(study, "check")
    probes = (*probes_of(study, suite.STAGE), *(n for n in suite.SHARED if n in shared))
    settings = DecodeSuiteSettings(
        seed=study.seed,
        dtypes=checked_dtypes(study),
        budget_s=study.suite_budget_s,
        quick=study.suite_quick,
        workloads=named if len(study.stages) == 1 else (),
    )
    return [
        Cell(
            name=f"{suite.STAGE}/{subject}",
            subjects=(subject,),
            probes=probes,
            device=study.device,
            options=options_of(settings),
            plugin_folders=study.plugin_folders,
            kind=names.KIND,
            files=names.layout_files((subject,), study.plugin_folders),
        )
        for subject in (study.decoders if probes else ())
    ]


def run(cell: Cell) -> Iterator[Begin | Measurement]:
    """A verdict for each probe on the cell's one subject."""
    (subject,) = cell.subjects
    folders, settings = cell.plugin_folders, settings_of(cell, DecodeSuiteSettings)
    yield Begin(subject)
    try:
        reader = decode.load(subject, folders)
        probes = {n: plugins.load(plugins.find("probes", n, folders)) for n in cell.probes}
    except BadInput as error:
        yield outcome_of(error, subject=subject, metric="load")
        return
    here = host.inspect(commit=False)
    tested = TestedReader(implementation=reader, host=here, device=cell.device)
    generator, refused = suite.generator_for(
        tested, seed=settings.seed, quick=settings.quick, dtypes=settings.dtypes
    )
    if refused and not settings.workloads:
        yield Measurement(subject=subject, metric=CONDITIONS, value=None, unit="", reason=refused)
    yield from suite.run(
        tested, probes, generator, budget_s=settings.budget_s, only=settings.workloads
    )
