"""Tensors of more than 2^31 elements, where an index of 32 bits wraps around; on a GPU only.

And more batch entries and heads than an axis of a grid can count. A small batch is repeated on the
device; first, middle and last repetitions are compared with what is right for the batch alone. An
odd number of entries is repeated, so that an index that wraps around meets another entry.
"""

from dataclasses import replace
from typing import Any

from msgspec import structs

from assay.attention.budget import TENSORS
from assay.correctness import judge
from assay.correctness.cases import CaseGenerator
from assay.host import Host
from assay.instruments.launches import GRID_AXIS, beyond_grid
from assay.instruments.out_of_memory import free_bytes, held_by_others, ran_out
from assay.records.schema import Measurement
from assay.records.verdicts import DEVICE_ERROR
from assay.subjects.contract import Expected
from assay.subjects.outcome import device_lost
from assay.subjects.sequence import SequenceSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload

OWN_SHAPES = True
_ELEMENTS = 2**31
_MANY_ELEMENTS, _MANY_ROWS = 3, 5  # batch entries of a case, which say what it is repeated for
# Queries, out and their gradients are large in one case, keys and values in another. As many are
# left for what the kernel allocates, such as a gradient added up in float32.
_TENSORS_HELD = 6
_CAUSES = {
    _MANY_ELEMENTS: "an index of 32 bits wraps around",
    _MANY_ROWS: f"batch entries x heads beyond {GRID_AXIS:,} are mixed up or left out",
}


def cases(generator: CaseGenerator) -> list[WorkloadSpec]:
    """Return batches that are repeated until they are large enough."""
    if not generator.gpu or generator.quick:
        return []
    many, few, dtype = 1024, 16, generator.half()
    large = {"batch": _MANY_ELEMENTS, "heads": 2, "head_dim": 64, "dtype": dtype, "causal": False}
    return [
        generator.spec(batch=_MANY_ROWS, heads=1, length=1, head_dim=16, dtype=dtype),
        generator.spec(**large, kv_heads=1, query_length=many, key_length=few),
        generator.spec(**large, query_length=few, key_length=many),
    ]


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Repeat the batch, and compare repetitions with the result of the batch alone."""
    spec, sizes = workload.spec, (workload.q.size, workload.k.size)
    most, rows = call.implementation.limits.batch_heads, spec.batch * spec.heads
    repeats = GRID_AXIS // rows + 1 if spec.batch == _MANY_ROWS else _ELEMENTS // max(sizes) + 1
    fitting = min(repeats, most // rows) if most else repeats
    if fitting < repeats and spec.batch != _MANY_ROWS:
        return [judge.unsupported("large", f"its limits end before {_ELEMENTS:,} elements")]
    needed = _TENSORS_HELD * fitting * sum(sizes) * 2
    if not call.host.accelerators or needed > (call.host.devices[0].memory_bytes or 0):
        return [judge.unsupported("large", f"needs a GPU with {needed / 2**30:.0f} GiB")]
    if refusal := call.implementation.refusal(replace(spec, batch=spec.batch * fitting), call.host):
        return [judge.unsupported("large", refusal)]
    call.framework.empty_cache(call.device)
    try:
        if (free := free_bytes(call.device)) is not None and free < needed:
            return [_waiting(needed, f"{free / 2**30:.0f} GiB are free")]
        return _measured(call, fitting)
    except Exception as error:
        if ran_out(error):
            if others := held_by_others(error):
                return [_waiting(needed, others)]
            return [judge.unsupported("large", "this device has too little memory for it")]
        reason = None if device_lost(error) else beyond_grid(error, rows * fitting)
        if reason is None:
            raise
        wrong = [m for m in _measured(call, GRID_AXIS // rows) if m.status == "failed"]
        return wrong or [judge.unsupported("large", reason)]
    finally:
        call.framework.empty_cache(call.device)


def _waiting(needed: int, words: str) -> Measurement:
    """Return the outcome on a device that others fill: for another process, once there is room."""
    refused = judge.unsupported("large", f"needs {needed / 2**30:.0f} GiB of the GPU; {words}")
    data = {**DEVICE_ERROR, "needs_bytes": needed}
    return structs.replace(refused, status="refused", data=data)


def _measured(call: SequenceSubject, repeats: int) -> list[Measurement]:
    """Compare the output, and the gradients where there are any, of the repeated batch."""
    repeated, wanted = call.repeated(repeats), call.expected()
    if call.has_backward:
        out, gradients = repeated.gradients()
        results = dict(zip(TENSORS, (out, *gradients), strict=True))
    else:
        results = {"out": repeated()}
    for tensor, array in results.items():
        if problem := repeated.form_problem(tensor, array):
            raise judge.MalformedResult(problem)
    return [_compared(call, wanted, name, array, repeats) for name, array in results.items()]


def _compared(
    call: SequenceSubject, wanted: Expected, tensor: str, array: Any, repeats: int
) -> Measurement:
    """Compare the first, the middle and the last repetitions with the reference."""
    batch, shares = call.workload.spec.batch, []
    for number in sorted({0, max(0, repeats // 2 - 1), repeats // 2, repeats - 1}):
        part = array[number * batch : (number + 1) * batch]
        comparison = judge.compare(tensor, part, call, wanted)
        if not comparison.holds:
            prefix = f"batch entries from {number * batch} on of {repeats * batch}: "
            cause = _CAUSES.get(batch) if judge.is_right(call) else None
            return judge.worst("large", [comparison], prefix, cause)
        shares.append(comparison.share or 0.0)
    return judge.passed("large", max(shares))
