"""Purity: inputs stay as they were, and a result depends on the inputs of its call alone."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from assay.attention.budget import TENSORS
from assay.captures.inputs import make
from assay.correctness import judge
from assay.correctness.cases import CaseGenerator
from assay.correctness.fresh_process import right_in_fresh_process
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.contract import TensorComparison
from assay.subjects.sequence import INPUTS, SequenceSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload

_REMEMBERED = (
    "a result is remembered: that of an earlier call is returned, found by shape or address"
)
_LEFT_BEHIND = "a buffer kept from an earlier call is used again without being cleared"
_STATE = "state is carried from call to call"
_IN_PLACE = "an operation in place changes an input, which the caller still holds"
_ALIAS = "the output is the memory of an input, or a view of it: a copy is not made"
_REUSED = "the output is a buffer that the next call writes into"
_NOT_ITS_OWN = "the backward reads what the latest forward left, not what its own forward saved"


def cases(generator: CaseGenerator) -> list[WorkloadSpec]:
    """Return equal and unequal lengths and grouped heads, in every dtype; of a single key, whose
    value is the output."""
    pairs = ((65, 65), (1, 1)) if generator.quick else ((65, 65), (1, 1), (33, 129), (129, 33))
    masks = zip((True, False, True), (4, 2, 4), generator.dtypes, strict=False)
    return [
        generator.spec(
            batch=2, heads=4, kv_heads=kv, query_length=q, key_length=k, causal=causal, dtype=dtype
        )
        for (q, k), (causal, kv, dtype) in product(pairs, masks)
    ]


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Check each way in which a call could leave a trace, or depend on one."""
    measurements = [
        _inputs_unchanged(call),
        _other_inputs(call, workload),
        _shorter_after_longer(call, workload),
        _earlier_output_unchanged(call, workload),
        *_inputs_changed_in_place(call, workload),
    ]
    if call.has_backward:
        measurements.append(_backward_after_another_call(call, workload))
    return measurements


def _compared(
    call: SequenceSubject,
    comparisons: list[TensorComparison],
    prefix: str,
    cause: str,
    spec: WorkloadSpec | None = None,
) -> Measurement:
    """Return the outcome of a call on the shape `spec` that came after others.

    State is blamed only where a fresh process is right on that very shape. What is wrong there too,
    or cannot be run there, fails without a cause: that is for other probes to name.
    """
    if all(comparison.holds for comparison in comparisons):
        return judge.worst("purity", comparisons)
    if not judge.is_right(call):
        return judge.unsupported("purity", "it is wrong on its first inputs already")
    shape = spec or call.workload.spec
    if right_in_fresh_process(call, shape):
        return judge.worst("purity", comparisons, prefix, cause)
    return judge.worst("purity", comparisons, f"on {shape.name}, ")


def _seeded(workload: Workload, offset: int) -> Workload:
    """Return a workload of the same shape with other values."""
    return make(replace(workload.spec, seed=workload.spec.seed + offset))


def _inputs_unchanged(call: SequenceSubject) -> Measurement:
    """Compare q, k, v and dO before and after a forward, and a forward and backward."""
    named = dict(zip((*INPUTS, "dO"), (*call.inputs, call.grad_out), strict=True))
    before = {name: call.framework.bits(array) for name, array in named.items()}

    def changed() -> str:
        return ", ".join(n for n, array in named.items() if call.framework.bits(array) != before[n])

    call()
    if names := changed():
        text = f"the forward pass changes {names} in place"
        return judge.failed("purity", text, _IN_PLACE)
    if call.has_backward:
        call.gradients()
        if names := changed():
            text = f"the backward pass changes {names} in place"
            return judge.failed("purity", text, _IN_PLACE)
    return judge.passed("purity")


def _other_inputs(call: SequenceSubject, workload: Workload) -> Measurement:
    """Call it on other inputs of the same shape, then on the first again."""
    first = judge.bits(call)
    other = call.on(_seeded(workload, 1000))
    prefix = "on a second set of inputs of the same shape, "
    comparisons = judge.compare_forward(other)
    outcome = _compared(call, comparisons, prefix, _REMEMBERED, other.workload.spec)
    if outcome.status != "ok" or judge.bits(call) == first:
        return outcome
    if judge.bits(call) != judge.bits(call):
        return outcome  # it repeats nothing, which determinism reports
    text = "a call gives other bits after a call on other inputs"
    return judge.failed("purity", text, _STATE)


def _shorter_after_longer(call: SequenceSubject, workload: Workload) -> Measurement:
    """Call it on shorter inputs, where what the longer call left behind must not show."""
    spec = workload.spec
    half = replace(
        spec, query_length=max(1, spec.query_length // 2 - 1), key_length=spec.key_length // 2 + 1
    )
    shorter = call.implementation.limits.fitted(half) or half
    call()
    comparisons = judge.compare_all(call.on(make(shorter)))
    prefix = "on a shorter call after a longer one, "
    return _compared(call, comparisons, prefix, _LEFT_BEHIND, shorter)


def _earlier_output_unchanged(call: SequenceSubject, workload: Workload) -> Measurement:
    out = judge.output(call)
    before = call.framework.bits(out)
    call.on(_seeded(workload, 2000))()
    if call.framework.bits(out) != before:
        text = "a later call overwrites the output that an earlier one returned"
        return judge.failed("purity", text, _REUSED)
    return judge.passed("purity")


def _inputs_changed_in_place(call: SequenceSubject, workload: Workload) -> list[Measurement]:
    """Put new values into the same memory: all of them, then one key's and one value's only."""
    one_key = replace(workload, k=_one_changed(workload.k), v=_one_changed(workload.v))
    measurements = []
    for other, words in ((_seeded(workload, 3000), "all values"), (one_key, "one key and value")):
        copy = call.on(workload)  # with arrays of its own, so that the case stays as it was
        out = copy()
        before = copy.framework.bits(out)
        if not _overwritten(copy, other):
            return []
        if copy.framework.bits(out) != before:
            text = f"the output changes when {words} of the inputs change in place after the call"
            return [judge.failed("purity", text, _ALIAS)]
        comparisons = judge.compare_forward(replace(copy, workload=other))
        prefix = f"after {words} changed in place, in the same memory, "
        measurements.append(_compared(call, comparisons, prefix, _REMEMBERED, other.spec))
    return measurements


def _one_changed(array: np.ndarray) -> np.ndarray:
    """Return a copy with another vector at one place in the middle."""
    other = array.copy()
    middle = other.shape[2] // 2
    other[:, :, middle] = -2 * other[:, :, middle]
    return other


def _overwritten(call: SequenceSubject, other: Workload) -> bool:
    """Write another workload's values into the inputs; return whether the framework can."""
    placed = [call.placed(getattr(other, name)) for name in INPUTS]
    written = [call.framework.overwrite(a, b) for a, b in zip(call.inputs, placed, strict=True)]
    return all(array is not None for array in written)


def _backward_after_another_call(call: SequenceSubject, workload: Workload) -> Measurement:
    """Run two forward passes, then the backward of the first."""
    other = call.on(_seeded(workload, 4000))

    def first_of_two(*inputs: Any) -> Any:
        out = call.apply(*inputs)
        other.gradients()
        return out

    _, gradients = call.framework.gradients(first_of_two, call.inputs, call.grad_out)
    comparisons = [
        judge.compare(tensor, array, call)
        for tensor, array in zip(TENSORS[1:], gradients, strict=True)
    ]
    prefix = "when another call comes before the backward, "
    return _compared(call, comparisons, prefix, _NOT_ITS_OWN)
