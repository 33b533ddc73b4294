"""Operations, bytes and KV-cache bytes of a workload by formula, to hold measured times against."""

from dataclasses import asdict

from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.sequence import SequenceSubject
from assay.workloads import work
from assay.workloads.workload import Workload

_SOURCES = {
    "forward_flops": "formula: 4 D per visible pair of query and key, for each query head",
    "backward_flops": "formula: 2.5 times the forward's",
    "forward_bytes": "formula: q, k and v read once, out written once",
    "backward_bytes": "formula: q, k, v, out, dO and LSE read once, dq, dk and dv written once",
    "kv_cache_bytes": "formula: k and v of this workload",
}


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """The same for every implementation: what was asked, not what one of them did."""
    return [
        Measurement(
            metric=metric,
            value=value,
            unit="FLOP" if metric.endswith("flops") else "B",
            source=_SOURCES[metric],
            level="kernel",
        )
        for metric, value in asdict(work.of(workload)).items()
    ]
