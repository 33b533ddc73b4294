"""Metrics that no table of ours names: those of a user's probe, which are shown all the same."""

from collections.abc import Sequence

from assay import plugins
from assay.laws.curves import MEASURING
from assay.records.schema import CELL_METRICS, Record
from assay.records.verdicts import is_verdict

# What tables of the measuring stages show, or leave out on purpose; a part follows after a dot.
_NAMED = {
    "latency_ms", "backward_ms", "training_ms", "graph_ms", "prepare_ms", "first_call_ms",
    "compile_ms", "device_ms", "device_span_ms", "kernels", "input_copy_bytes", "forward_flops",
    "backward_flops", "forward_bytes", "backward_bytes", "kv_cache_bytes", "forward_peak_bytes",
    "training_peak_bytes", "saved_bytes", "reserved_peak_bytes", "workspace_bytes",
    "fragmentation", "held_cache_bytes", *CELL_METRICS,
}  # fmt: skip
_BEGINNINGS = ("kernel_", "max_error_", "gradient_of_", "gradients_of_", "cache_", "replayed_")


def other_metrics(records: Sequence[Record]) -> dict[str, str]:
    """Metrics of the measuring stages that have a value and no table of their own, with units."""
    named = _NAMED.union(plugins.listing("probes"))  # a probe that judges gives its metric its name
    return {
        record.metric: record.unit
        for record in records
        if record.stage in MEASURING
        and record.value is not None
        and record.workload
        and record.metric.partition(".")[0] not in named
        and not record.metric.startswith(_BEGINNINGS)
        and not is_verdict(record)
    }
