"""How a cell with probes is run, in the cell's own process."""

import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator

import msgspec

from assay import host, plugins
from assay.attention import contract
from assay.captures.inputs import make
from assay.correctness import second_process, suite
from assay.errors import BadInput
from assay.host import Host
from assay.performance import loop
from assay.records.schema import Measurement
from assay.studies.cell import Cell
from assay.subjects.outcome import Begin, outcome_of
from assay.subjects.sequence import SequenceSubject, bind

_TWIN_OF = "determinism"  # the probe that asks what another process gives


def run_probes(cell: Cell) -> Iterator[Begin | Measurement]:
    """Measure the cell's subjects with its probes on its workload."""
    assert cell.probes and cell.workload
    request = loop.Request(
        probes=cell.probes,
        workload=cell.workload,
        subjects=cell.subjects,
        device=cell.device,
        **{"rounds": 0, "warmup": 0, **cell.options},
        folders=cell.plugin_folders,
    )
    yield from loop.run(request, host.inspect())


def run_alone(
    cell: Cell, metric: str, measure: Callable[[SequenceSubject, Host], Iterable[Measurement]]
) -> Iterator[Begin | Measurement]:
    """What `measure` says of the cell's one subject on its workload; a failure under `metric`."""
    (subject,) = cell.subjects
    assert cell.workload
    yield Begin(subject)
    workload, here = make(cell.workload), host.inspect()
    try:
        call = bind(subject, workload, host=here, device=cell.device, folders=cell.plugin_folders)
        for measurement in measure(call, here):
            yield msgspec.structs.replace(measurement, subject=subject, workload=workload.identity)
    except Exception as error:
        yield outcome_of(error, subject=subject, metric=metric, workload=cell.workload)


def run_suite(cell: Cell) -> Iterator[Begin | Measurement]:
    """Hold the cell's one subject against its probes on the cases that they make."""
    (subject,) = cell.subjects
    folders, options = cell.plugin_folders, cell.options
    _repeatable_xla()
    yield Begin(subject)
    try:
        implementation = contract.load(subject, folders)
        probes = {n: plugins.load(plugins.find("probes", n, folders)) for n in cell.probes}
    except BadInput as error:
        traceback.print_exception(error, file=sys.stderr)
        yield Measurement(
            subject=subject, metric="load", value=None, unit="", status="failed", reason=str(error)
        )
        return
    plan = suite.plan_for(
        implementation,
        seed=options["seed"],
        count=options["cases"],
        quick=options["quick"],
        device=cell.device,
        dtypes=options["dtypes"],
    )
    elsewhere = None
    if _TWIN_OF in probes:
        cases = probes[_TWIN_OF].cases(plan)
        elsewhere = second_process.start(subject, cases, device=cell.device, folders=folders)
    bench = suite.Bench(
        implementation=implementation,
        host=host.inspect(),
        device=cell.device,
        elsewhere=elsewhere,
        fresh=lambda: contract.load(subject, folders),
    )
    yield from suite.run(bench, probes, plan, budget_s=options["budget_s"])


def _repeatable_xla() -> None:
    """XLA tunes its matrix products anew in each process, and the winner decides the order of
    summation. Where bits are compared it must not; where speed is measured it may."""
    given = os.environ.get("XLA_FLAGS", "")
    if "xla_gpu_deterministic_ops" not in given:
        os.environ["XLA_FLAGS"] = f"{given} --xla_gpu_deterministic_ops=true".strip()
