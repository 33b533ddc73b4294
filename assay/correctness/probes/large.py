"""Tensors of more than 2^31 elements, where an index of 32 bits wraps around; on a GPU only.

They have more batch entries and heads than an axis of a grid can count, too.
"""

from dataclasses import replace
from typing import Any

import msgspec

from assay.attention.budget import TENSORS
from assay.captures.inputs import make
from assay.correctness import judge
from assay.correctness.cases import CaseGenerator
from assay.host import Host
from assay.instruments.out_of_memory import held_by_others, ran_out
from assay.records.foreign_text import first_line
from assay.records.schema import Measurement
from assay.subjects.outcome import device_lost
from assay.subjects.sequence import SequenceSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload, identity

OWN_SHAPES = True
_ELEMENTS = 2**31
_GRID = 2**16 - 1  # the most blocks that CUDA allows in the second and third axis of a grid
_GRID_CAUSE = (
    "an axis of a kernel's grid counts batch entries x heads, or batch entries, and ends at "
    f"{_GRID:,}: only the first axis goes further, so count them there, or in several launches"
)
_TENSORS_HELD = 12  # q, k, v, out, their gradients, and room for what the kernel allocates


def cases(generator: CaseGenerator) -> list[WorkloadSpec]:
    """Return a batch that is repeated until it is large enough."""
    if not generator.gpu or generator.quick:
        return []
    return [generator.spec(batch=64, heads=32, length=64, head_dim=64, dtype=generator.half())]


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Repeat the batch, and compare repetitions with the result of the batch alone."""
    repeats = _ELEMENTS // workload.q.size + 1
    needed = _TENSORS_HELD * repeats * workload.q.size * 2
    if not call.host.accelerators or needed > (call.host.devices[0].memory_bytes or 0):
        return [judge.unsupported("large", f"needs a GPU with {needed / 2**30:.0f} GiB")]
    spec = replace(workload.spec, batch=workload.spec.batch * repeats)
    if refusal := call.implementation.refusal(spec, call.host):
        return [judge.unsupported("large", refusal)]
    try:
        results = _results(call, repeats)
        return [_compared(call, tensor, array, repeats) for tensor, array in results.items()]
    except Exception as error:
        if not ran_out(error):
            beyond = None if device_lost(error) else _beyond_grid(call)
            if beyond is None:
                raise
            return [beyond]
        reason = held_by_others(error) or "this device has too little memory for it"
        return [judge.unsupported("large", reason)]
    finally:
        call.framework.empty_cache(call.device)


def _results(call: SequenceSubject, repeats: int) -> dict[str, Any]:
    """Return the output, and the gradients where there are any, of the repeated batch."""
    inputs = tuple(call.framework.tiled(array, repeats) for array in call.inputs)
    grad_out = call.framework.tiled(call.grad_out, repeats)
    repeated = replace(call, inputs=inputs, grad_out=grad_out)
    if not call.has_backward:
        return {"out": repeated()}
    out, gradients = repeated.gradients()
    return dict(zip(TENSORS, (out, *gradients), strict=True))


def _beyond_grid(call: SequenceSubject) -> Measurement | None:
    """Return a failure that a grid explains, on a case of its own: one more batch entry than an
    axis counts raises, and one less does not. None where something else is the reason."""
    entries = {"heads": 1, "kv_heads": 1, "query_length": 1, "key_length": 1, "head_dim": 16}
    tiny = call.implementation.limits.fitted(replace(call.workload.spec, **entries))
    if tiny is None or not judge.is_right(call):
        return None
    rows = tiny.heads
    most, beyond = (replace(tiny, batch=n // rows) for n in (_GRID, _GRID + rows))
    if _raised(call, most):
        return None
    error = _raised(call, beyond)
    if error is None:
        return None
    text = f"raises {type(error).__name__}: {first_line(error, 300)}"
    reason = f"with {beyond.batch * rows:,} batch entries x heads {text}"
    failed = judge.failed("large", reason, _GRID_CAUSE)
    return msgspec.structs.replace(failed, workload=identity(beyond))


def _raised(call: SequenceSubject, spec: WorkloadSpec) -> Exception | None:
    """Return what a forward raises on another workload."""
    try:
        call.on(make(spec))()
        call.synchronize()
    except Exception as error:
        if device_lost(error):
            raise
        return error
    return None


def _compared(call: SequenceSubject, tensor: str, array: Any, repeats: int) -> Measurement:
    """Compare the first, the middle and the last repetitions with the reference."""
    batch = call.workload.spec.batch
    for number in sorted({0, repeats // 2 - 1, repeats // 2, repeats - 1}):
        part = array[number * batch : (number + 1) * batch]
        comparison = judge.compare(tensor, part, call)
        if not comparison.holds:
            prefix = f"batch entries from {number * batch} on of {repeats * batch}: "
            cause = "an index of 32 bits wraps around" if judge.is_right(call) else None
            return judge.worst("large", [comparison], prefix, cause)
    return judge.passed("large")
