"""The same inputs give the same bits: call after call, in another process, and backwards too."""

from assay.correctness import judge
from assay.correctness.cases import Plan
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.sequence import INPUTS, SequenceSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload

_REPEATS = 4


def cases(plan: Plan) -> list[WorkloadSpec]:
    """Several tiles of keys, so that there is an order of summation to change."""
    pairs = ((65, 129),) if plan.quick else ((65, 129), (130, 257), (33, 600))
    return [
        plan.spec(
            batch=2, heads=4, kv_heads=kv, query_length=q, key_length=k, causal=causal, dtype=dtype
        )
        for q, k in pairs
        for dtype, causal, kv in ((plan.dtypes[0], True, 4), (plan.half(), False, 2))
    ]


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Forward always; backward unless the implementation says that it is not repeatable."""
    found = [_forward(call), _elsewhere(call, workload.spec)]
    if call.has_backward and call.implementation.deterministic_backward:
        found.append(_backward(call))
    return found


def _forward(call: SequenceSubject) -> Measurement:
    if len({judge.digest(call) for _ in range(_REPEATS)}) > 1:
        text = f"{_REPEATS} calls on the same inputs give outputs that differ in their bits"
        cause = "the order of summation changes from call to call: atomics, or a random order"
        return judge.failed("determinism", text, cause)
    return judge.holds("determinism")


def _elsewhere(call: SequenceSubject, spec: WorkloadSpec) -> Measurement:
    there = call.elsewhere(spec) if call.elsewhere else None
    if there is None:
        return judge.unsupported("determinism", "there is no other process to compare with")
    if there.error:
        text = f"in another process the same call raises {there.error}"
        return judge.failed("determinism", text, "it works in the first process only")
    if there.digest != judge.digest(call):
        text = "another process gives an output for the same inputs that differs in its bits"
        cause = "the result depends on the process: a hash, its number, its environment or the time"
        return judge.failed("determinism", text, cause)
    return judge.holds("determinism")


def _backward(call: SequenceSubject) -> Measurement:
    seen: dict[str, set[bytes]] = {name: set() for name in INPUTS}
    for _ in range(_REPEATS):
        _, gradients = call.gradients()
        for name, gradient in zip(INPUTS, gradients, strict=True):
            if call.framework.is_array(gradient):
                seen[name].add(call.framework.bits(gradient))
    changing = [f"d{name}" for name, values in seen.items() if len(values) > 1]
    if changing:
        text = (
            f"{_REPEATS} backward passes on the same inputs give {', '.join(changing)} that differ "
            "in their bits"
        )
        cause = (
            "the order of summation changes from call to call, as with atomics; if that is meant, "
            "say DETERMINISTIC_BACKWARD = False"
        )
        return judge.failed("determinism", text, cause)
    return judge.holds("determinism")
