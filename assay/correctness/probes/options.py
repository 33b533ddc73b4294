"""Options that an implementation declares in ACCEPTS: lengths, window, packing, mask."""

from dataclasses import replace

from assay.correctness import judge
from assay.correctness.cases import CaseGenerator
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.sequence import SequenceSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload

_FIELDS = {  # of a workload's spec, by the option that they need
    "lengths": ({"padded": True},),
    "window": ({"window": 1}, {"window": 16}, {"window": 33}, {"window": 200}),
    "mask": ({"masked": True},),
    "cu_seqlens": ({"packed": 2, "batch": 1}, {"packed": 5, "batch": 1}),
}


def cases(generator: CaseGenerator) -> list[WorkloadSpec]:
    """Return random shapes with each option by itself, and with lengths and a window together."""
    specs = []
    for name in sorted(generator.accepts & set(_FIELDS)):
        for fields in _FIELDS[name]:
            for spec in generator.random(2 if generator.quick else 6, f"options/{fields}"):
                if spec.query_length * spec.key_length < 100_000:
                    batch = 2 if name == "lengths" and spec.batch == 1 else spec.batch
                    specs.append(replace(spec, **{"batch": batch, **fields}))
    if {"lengths", "window"} <= generator.accepts:
        both = generator.random(2, "options/both")
        specs += [replace(spec, padded=True, window=20) for spec in both]
    return specs


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Compare output, LSE and gradients."""
    return [judge.worst("options", judge.compare_all(call))]
