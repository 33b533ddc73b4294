"""Keys and values far from 1, where scales come to their limits; no product overflows.

What a layout itself does not give back as a number is no matter of the kernel that reads it.
"""

from dataclasses import replace
from itertools import product

import numpy as np

from assay.correctness import judge
from assay.correctness.decode.cases import DecodeCases
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.decode import DecodeSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.values import rounded
from assay.workloads.workload import Workload

_SIZES = (1e-2, 1e3)
_WIDE = (1e-30, 1e30)  # of dtypes with 8 bits of exponent
_SCORE = 0.05  # times the size, so that scores are as large as those of numbers around 1


def cases(generator: DecodeCases) -> list[WorkloadSpec]:
    """Return a few tiles of keys."""
    return generator.by_turns({"key_length": 50}, {"key_length": 130})


def measure(call: DecodeSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Compare output and LSE for keys and values of each size; where the layout gives back
    inf or NaN for them, either or both are nearer to 1."""
    measurements = []
    for wide, usual in zip(_WIDE, _SIZES, strict=True):
        sizes = (usual,) if workload.spec.dtype == "float16" else (wide, usual)
        for of_keys, of_values in product(sizes, repeat=2):
            scaled = call.on(_times(workload, of_keys, of_values))
            words = f"keys of {of_keys:g} and values of {of_values:g}"
            if _holds_numbers(scaled):
                compared = judge.compare_forward(scaled)
                measurements.append(judge.worst("magnitudes", compared, f"with {words}, "))
                break
            layout = call.implementation.layout.name
            reason = f"{words}: {layout} gives back inf or NaN for them"
            measurements.append(judge.unsupported("magnitudes", reason))
    return measurements


def _times(workload: Workload, of_keys: float, of_values: float) -> Workload:
    dtype = workload.spec.dtype
    arrays = {
        "k": rounded(workload.k * of_keys, dtype),
        "v": rounded(workload.v * of_values, dtype),
    }
    return replace(workload, spec=replace(workload.spec, exact_scale=_SCORE / of_keys), **arrays)


def _holds_numbers(call: DecodeSubject) -> bool:
    """Return whether the right answer, which is of what the layout gives back, is all numbers."""
    with np.errstate(invalid="ignore", over="ignore"):
        return bool(np.isfinite(call.expected().result.out).all())
