"""Tensors of more than 2^31 elements, where an index of 32 bits wraps around; on a GPU only."""

from dataclasses import replace

from assay.correctness import judge
from assay.correctness.cases import Plan
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.sequence import SequenceSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload

_ELEMENTS = 2**31
_TENSORS = 12  # q, k, v, out, their gradients, and room for what the kernel makes


def cases(plan: Plan) -> list[WorkloadSpec]:
    """A batch that is repeated until it is large enough."""
    if not plan.gpu or plan.quick:
        return []
    return [plan.spec(batch=64, heads=32, length=64, head_dim=64, dtype=plan.half(), causal=True)]


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """The batch many times over: every repetition has the first one's result."""
    repeats = _ELEMENTS // workload.q.size + 1
    needed = _TENSORS * repeats * workload.q.size * 2
    there = call.host.devices[0].memory_bytes or 0
    if not call.host.accelerators or needed > there:
        reason = f"needs a GPU with {needed / 2**30:.0f} GiB"
        return [judge.unsupported("large", reason)]
    spec = replace(workload.spec, batch=workload.spec.batch * repeats)
    refusal = call.implementation.refusal(spec, call.host)
    if refusal:
        return [judge.unsupported("large", refusal)]
    try:
        return _many_times(call, workload, repeats)
    except Exception as error:
        if not call.framework.out_of_memory(error):
            raise
        return [judge.unsupported("large", "this device has too little memory for it")]
    finally:
        call.framework.empty_cache(call.device)


def _many_times(call: SequenceSubject, workload: Workload, repeats: int) -> list[Measurement]:
    inputs = tuple(call.framework.tiled(array, repeats) for array in call.inputs)
    grad_out = call.framework.tiled(call.grad_out, repeats)
    big = replace(call, inputs=inputs, grad_out=grad_out)
    if call.has_backward:
        out, gradients = big.gradients()
        results = dict(zip(("out", "dq", "dk", "dv"), (out, *gradients), strict=True))
    else:
        results = {"out": big()}
    return [_repeated(call, workload, name, array, repeats) for name, array in results.items()]


def _repeated(
    call: SequenceSubject, workload: Workload, name: str, array: object, repeats: int
) -> Measurement:
    batch = workload.spec.batch
    for number in sorted({0, repeats // 2 - 1, repeats // 2, repeats - 1}):
        part = array[number * batch : (number + 1) * batch]  # type: ignore[index]
        comparison = judge.compare(name, part, call)
        if not comparison.holds:
            about = f"batch rows from {number * batch} on of {repeats * batch}: "
            cause = "an index of 32 bits wraps around"
            return judge.verdict("large", [comparison], about, cause)
    return judge.holds("large")
