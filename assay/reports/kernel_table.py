"""Which kernels ran, and what the longest of each call takes from the hardware."""

from collections.abc import Sequence

from assay.reports.bench_table import said_once, size
from assay.reports.kernel_names import short_kernel
from assay.reports.numerals import number
from assay.reports.speed_rows import Row
from assay.reports.table import Entry, Table, shorten_workloads

_COUNTS = {
    "kernels": "kernels",
    "kernel_registers": "registers",
    "kernel_spills": "spills",
    "kernel_occupancy": "occupancy",
    "kernel_tensor_ops": "tensor ops",
}
_NOTE = (
    "Kernels is how many one forward call launches; the rest is of the longest of them, from the "
    "profiler and the compiled binary. Inputs copied is what torch operations copy of q, k and v "
    "within each call."
)


def kernel_table(rows: Sequence[Row]) -> Table | None:
    """A row for each subject and workload with kernels on record; None where there is none."""
    rows = [row for row in rows if any(metric in row.records for metric in _COUNTS)]
    if not rows:
        return None
    return shorten_workloads(
        Table(
            title="Kernels" if rows[0].stage == "bench" else f"Kernels of {rows[0].stage}",
            columns=(
                "workload",
                "subject",
                "longest kernel",
                *_COUNTS.values(),
                "shared memory",
                "inputs copied",
                "device (ms)",
                "graph (ms)",
            ),
            rows=tuple((row.workload.name, row.subject, *said_once(_cells(row))) for row in rows),
            note=_NOTE,
            spare=("graph (ms)", "device (ms)", "inputs copied"),
        )
    )


def _cells(row: Row) -> list[Entry]:
    return [
        _longest(row),
        *(_count(row, metric) for metric in _COUNTS),
        size(row, "kernel_shared_bytes"),
        size(row, "input_copy_bytes"),
        row.timed("device_ms"),
        row.timed("graph_ms"),
    ]


def _longest(row: Row) -> Entry:
    named = (row.records.get(m) for m in ("kernel_registers", "kernels"))
    source = next((r.source for r in named if r is not None and r.source), None)
    everything = row.records.get("kernels")
    if source is None:
        return row.absent("kernels")
    hint = everything.source if everything is not None and everything.source else source
    return Entry(text=short_kernel(source), hint=hint)


def _count(row: Row, metric: str) -> Entry:
    value = row.value(metric)
    if value is None:
        return row.absent(metric)
    return Entry(text=number(value) if value else "0", value=value)
