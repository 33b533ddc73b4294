"""Kernels that ran, and what the longest of each call takes from the hardware."""

from collections.abc import Sequence

from assay.records.schema import Record
from assay.reports.speed_rows import Row, row_table, short_kernel, speed_rows, whole_kernel
from assay.reports.table import Entry, Table

STAGES = ("bench", "layers", "decode")
PLACE = 40
DETAIL = True
_COUNTS = {
    "kernels": "kernels",
    "registers": "kernel_registers",
    "spills": "kernel_spills",
    "occupancy": "kernel_occupancy",
    "tensor ops": "kernel_tensor_ops",
}
_COMPILE = "compile_ms"
_NOTE = (
    "Kernels is how many one forward call launches, on a CPU operators; the rest is of the longest "
    "of them, from the profiler and the compiled binary. Inputs copied is what torch operations "
    "copy of q, k and v within each call. Compile is a call with empty caches, less a later one."
)


def tables(stage: str, records: Sequence[Record]) -> list[Table]:
    """One table with a row for each subject and workload that has kernels on record."""
    rows = [
        row
        for row in speed_rows(stage, records)
        if any(metric in row.records for metric in (*_COUNTS.values(), _COMPILE))
    ]
    if not rows:
        return []
    columns = {"longest kernel": _longest}
    for name, metric in _COUNTS.items():
        columns[name] = lambda row, metric=metric: row.count(metric)
    columns["shared memory"] = lambda row: row.size("kernel_shared_bytes")
    columns["inputs copied"] = lambda row: row.size("input_copy_bytes")
    columns["device (ms)"] = lambda row: row.time("device_ms")
    columns["graph (ms)"] = lambda row: row.time("graph_ms")
    always = tuple(columns)
    columns["compile (ms)"] = lambda row: row.time(_COMPILE)
    spare = ("graph (ms)", "device (ms)", "inputs copied", "shared memory", "compile (ms)")
    spare += ("tensor ops", "spills")
    return [row_table("Kernels", rows, columns, note=_NOTE, spare=spare, always=always)]


def _longest(row: Row) -> Entry:
    named = (row.records.get(metric) for metric in ("kernel_registers", "kernels"))
    source = next((record.source for record in named if record and record.source), None)
    if source is None:
        return row.absent("kernels")
    all_kernels = row.records.get("kernels")
    hint = all_kernels.source if all_kernels and all_kernels.source else source
    return Entry(text=short_kernel(source), hint=hint, whole=whole_kernel(source))
