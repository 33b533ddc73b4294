"""One sequence beside loud neighbours: the bits of its output are the same as beside quiet ones."""

from dataclasses import replace

import numpy as np

from assay.correctness import judge
from assay.correctness.decode.cases import DecodeCases
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.decode import DecodeSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.values import rounded
from assay.workloads.workload import Workload

_LOUD = 30.0
_CAUSE = "sequences are mixed up: one is computed with data of another"


def cases(generator: DecodeCases) -> list[WorkloadSpec]:
    """Return batches of three, in one tile of keys and in several."""
    common = {"batch": 3, "group": 2}
    return generator.by_turns({**common, "key_length": 40}, {**common, "key_length": 200})


def measure(call: DecodeSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Compare bits of each sequence with those it has where all others are thirty times as loud."""
    batch = workload.spec.batch
    if batch == 1:
        return [judge.unsupported("neighbours", "a single sequence has no neighbours")]
    quiet = judge.output(call)
    for own in range(batch):
        beside = judge.output(call.on(_loud(workload, own)))
        if call.framework.bits(beside[own]) != call.framework.bits(quiet[own]):
            text = f"sequence {own} has other bits where only its neighbours have changed"
            return [judge.failed("neighbours", text, _CAUSE if judge.is_right(call) else None)]
    return [judge.passed("neighbours")]


def _loud(workload: Workload, own: int) -> Workload:
    factor = np.full((workload.spec.batch, 1, 1, 1), _LOUD, np.float32)
    factor[own] = 1.0
    dtype = workload.spec.dtype
    arrays = {name: rounded(getattr(workload, name) * factor, dtype) for name in ("q", "k", "v")}
    return replace(workload, **arrays)
