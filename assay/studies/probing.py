"""How a cell with a probe is run, in the cell's own process."""

from collections.abc import Iterator

from assay import host
from assay.bench import loop
from assay.records.schema import Measurement
from assay.studies.cell import Cell


def run_probe(cell: Cell) -> Iterator[loop.Begin | Measurement]:
    """Measure the cell's subjects with its probe."""
    assert cell.probe and cell.workload
    request = loop.Request(
        probe=cell.probe,
        workload=cell.workload,
        subjects=cell.subjects,
        device=cell.device,
        warmup=cell.options.get("warmup", 0),
        rounds=cell.options.get("rounds", 0),
        folders=cell.plugin_folders,
    )
    yield from loop.run(request, host.inspect())
