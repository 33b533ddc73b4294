"""Keys and values far from 1, where scales come to their limits; no product overflows."""

from dataclasses import replace

from assay.correctness import judge
from assay.correctness.decode.cases import DecodeCases
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.decode import DecodeSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.values import rounded
from assay.workloads.workload import Workload

_SIZES = {"float16": (1e-2, 1e3)}
_WIDE = (1e-30, 1e30)  # of dtypes with 8 bits of exponent
_SCORE = 0.05  # times the size, so that scores are as large as those of numbers around 1


def cases(generator: DecodeCases) -> list[WorkloadSpec]:
    """Return a few tiles of keys."""
    return generator.by_turns({"key_length": 50}, {"key_length": 130})


def measure(call: DecodeSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Compare output and LSE for keys and values of each size."""
    spec = workload.spec
    measurements = []
    for size in _SIZES.get(spec.dtype, _WIDE):
        arrays = {name: rounded(getattr(workload, name) * size, spec.dtype) for name in "kv"}
        scaled = replace(workload, spec=replace(spec, exact_scale=_SCORE / size), **arrays)
        prefix = f"with keys and values of {size:g}, "
        measurements.append(
            judge.worst("magnitudes", judge.compare_forward(call.on(scaled)), prefix)
        )
    return measurements
