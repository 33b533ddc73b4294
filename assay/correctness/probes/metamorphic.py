"""Relations between outputs that need no reference.

Keys in another order, a constant added to every score of a row, and kv heads written out for each
query head of their group leave the output as it is.
"""

from dataclasses import replace

import numpy as np

from assay.correctness import judge
from assay.correctness.cases import CaseGenerator
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.sequence import SequenceSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload

# Exact in every dtype. The second is below what masks are filled with, such as -1e4.
_SHIFTS = (128.0, -32768.0)


def cases(generator: CaseGenerator) -> list[WorkloadSpec]:
    """Return grouped heads, full and causal."""
    pairs = ((33, 65),) if generator.quick else ((33, 65), (130, 130), (64, 257))
    return [
        generator.spec(
            heads=4,
            kv_heads=2 if number % 3 else 4,
            query_length=q,
            key_length=k,
            dtype=dtype,
            causal=causal,
            scale_percent=250,
        )
        for number, (q, k) in enumerate(pairs)
        for causal in (False, True)
        for dtype in generator.dtypes
    ]


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Compare the outputs of every relation that applies to the workload."""
    if workload.spec.extras:
        return [judge.unsupported("metamorphic", "relations are of plain workloads")]
    measurements = [_shifted(call, workload, shift) for shift in _SHIFTS]
    if not workload.spec.causal:
        measurements.append(_permuted(call, workload))
    if workload.spec.heads != workload.spec.kv_heads:
        measurements.append(_written_out(call, workload))
    return measurements


def _permuted(call: SequenceSubject, workload: Workload) -> Measurement:
    order = np.random.Generator(np.random.Philox(7)).permutation(workload.spec.key_length)
    other = replace(workload, k=workload.k[:, :, order], v=workload.v[:, :, order])
    text = "the output changes with the order of the keys"
    cause = "keys are not all treated alike: tiles, or a merge"
    return _compared(call, workload, other, text, cause)


def _shifted(call: SequenceSubject, workload: Workload, shift: float) -> Measurement:
    """Set the last coordinate of q to one and that of k to a constant, which shifts all scores."""
    q, k = workload.q.copy(), workload.k.copy()
    q[..., -1], k[..., -1] = 1.0, 0.0
    shifted = k.copy()
    shifted[..., -1] = shift
    first = replace(workload, q=q, k=k)
    return _compared(
        call,
        first,
        replace(workload, q=q, k=shifted),
        f"the output changes when {shift:g} x scale is added to every score",
        "masked scores are filled with a finite number that visible ones fall below, a row's "
        "largest score is not subtracted, or scores are clamped",
        right=first,
    )


def _written_out(call: SequenceSubject, workload: Workload) -> Measurement:
    spec = workload.spec
    group = spec.heads // spec.kv_heads
    k, v = (np.repeat(array, group, axis=1) for array in (workload.k, workload.v))
    other = replace(workload, spec=replace(spec, kv_heads=spec.heads), k=k, v=v)
    text = "grouped heads give another output than the same kv heads written out"
    cause = "query heads read the wrong kv head of their group"
    return _compared(call, workload, other, text, cause, right=other)


def _compared(
    call: SequenceSubject,
    first: Workload,
    second: Workload,
    text: str,
    cause: str,
    right: Workload | None = None,
) -> Measurement:
    """Compare the outputs of two workloads, which must be equal within the budgets of both.

    The cause is told only where the output of the workload `right` is: a kernel that is wrong on
    both has another one.
    """
    pair = (first, second)
    allowed = sum(call.expected(workload).allowed["out"].largest for workload in pair)
    outputs = [judge.values(call.on(workload)) for workload in pair]
    if not np.isfinite(outputs[0]).all():
        return judge.failed("metamorphic", "the output is not finite, before anything changes")
    moved = np.abs(outputs[0] - outputs[1]) / allowed
    outcome = judge.unmoved("metamorphic", moved, text, cause)
    if outcome.status == "ok" or right is None or judge.is_right(call.on(right)):
        return outcome
    return judge.unmoved("metamorphic", moved, text)
