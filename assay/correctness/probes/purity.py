"""A function of its inputs alone: they stay as they were, and no answer is remembered."""

from dataclasses import replace
from typing import Any

import numpy as np

from assay.captures.inputs import make
from assay.correctness import judge
from assay.correctness.cases import Plan
from assay.correctness.second_process import right_when_fresh
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.contract import Comparison
from assay.subjects.sequence import INPUTS, SequenceSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload


def cases(plan: Plan) -> list[WorkloadSpec]:
    """Equal and unequal lengths, grouped heads; every dtype."""
    pairs = ((65, 65),) if plan.quick else ((65, 65), (33, 129), (129, 33))
    return [
        plan.spec(
            batch=2, heads=4, kv_heads=kv, query_length=q, key_length=k, causal=causal, dtype=dtype
        )
        for q, k in pairs
        for causal, kv, dtype in zip((True, False, True), (4, 2, 4), plan.dtypes, strict=False)
    ]


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Each way in which a call could leave a trace, or find one."""
    found = [_inputs_stay(call), _fresh_inputs(call, workload), _smaller_after(call, workload)]
    found.append(_earlier_output_stays(call, workload))
    found += _changed_in_place(call, workload)
    if call.has_backward:
        found.append(_backward_after_another(call, workload))
    return found


_REMEMBERED = (
    "an answer is remembered: a result of an earlier call is returned, by shape or address"
)
_LEFT_BEHIND = "a buffer kept from an earlier call is used again without being cleared"
_STATE = "state is carried from call to call"
_IN_PLACE = "an operation in place changes an input, which the caller still holds"
_REUSED = "the output is a buffer that the next call writes into"
_NOT_ITS_OWN = "the backward reads what the last forward left, not what its own forward saved"


def _said(complaint: str | None, cause: str = "") -> Measurement:
    return judge.failed("purity", complaint, cause) if complaint else judge.holds("purity")


def _blamed(
    call: SequenceSubject,
    comparisons: list[Comparison],
    about: str,
    cause: str,
    spec: WorkloadSpec | None = None,
) -> Measurement:
    """The verdict on a call of the shape `spec` that came after others.

    State is blamed only where a fresh process is right on that very shape. What is wrong there too,
    or cannot be asked there, fails without a cause: that is for other probes to name.
    """
    if all(comparison.holds for comparison in comparisons):
        return judge.verdict("purity", comparisons)
    if not all(comparison.holds for comparison in judge.everything(call)):
        return judge.unsupported("purity", "it is wrong on its first inputs already")
    path, shape = call.implementation.path, spec or call.workload.spec
    if path and right_when_fresh(path, shape, call.device):
        return judge.verdict("purity", comparisons, about, cause)
    return judge.verdict("purity", comparisons, f"on {shape.name}, ")


def _inputs_stay(call: SequenceSubject) -> Measurement:
    """Forward, then forward and backward, leave q, k, v and dO as they were."""
    named = dict(zip((*INPUTS, "dO"), (*call.inputs, call.grad_out), strict=True))
    before = {name: call.framework.bits(array) for name, array in named.items()}
    call()
    changed = [n for n, array in named.items() if call.framework.bits(array) != before[n]]
    if changed:
        return _said(f"the forward pass changes {', '.join(changed)} in place", _IN_PLACE)
    if call.has_backward:
        call.gradients()
        changed = [n for n, array in named.items() if call.framework.bits(array) != before[n]]
        if changed:
            return _said(f"the backward pass changes {', '.join(changed)} in place", _IN_PLACE)
    return _said(None)


def _fresh_inputs(call: SequenceSubject, workload: Workload) -> Measurement:
    """Other inputs of the same shape, then the first again."""
    first = judge.bits(call)
    other = call.on(make(replace(workload.spec, seed=workload.spec.seed + 1000)))
    about = "on a second set of inputs of the same shape, "
    verdict = _blamed(call, judge.forward(other), about, _REMEMBERED, other.workload.spec)
    if (
        verdict.status == "ok"
        and judge.bits(call) != first
        and judge.bits(call) == judge.bits(call)
    ):
        return _said("a call gives other bits after a call on other inputs", _STATE)
    return verdict


def _smaller_after(call: SequenceSubject, workload: Workload) -> Measurement:
    """A shorter call after a longer one: what the longer one left behind must not show."""
    spec = workload.spec
    shorter = replace(
        spec, query_length=max(1, spec.query_length // 2 - 1), key_length=spec.key_length // 2 + 1
    )
    call()
    comparisons = judge.everything(call.on(make(shorter)))
    about = "on a shorter call after a longer one, "
    return _blamed(call, comparisons, about, _LEFT_BEHIND, shorter)


def _earlier_output_stays(call: SequenceSubject, workload: Workload) -> Measurement:
    out = judge.output(call)
    before = call.framework.bits(out)
    call.on(make(replace(workload.spec, seed=workload.spec.seed + 2000)))()
    if call.framework.bits(out) != before:
        return _said("a later call overwrites the output that an earlier one returned", _REUSED)
    return _said(None)


def _changed_in_place(call: SequenceSubject, workload: Workload) -> list[Measurement]:
    """New values in the same memory: all of them, then one key's and one value's only."""
    fresh = make(replace(workload.spec, seed=workload.spec.seed + 3000))
    one_key = replace(workload, k=_one_changed(workload.k), v=_one_changed(workload.v))
    found = []
    for other, about in ((fresh, "all values"), (one_key, "one key and one value")):
        mine = call.on(workload)  # arrays of its own, so that the case stays as it was
        mine()
        if not _overwritten(mine, other):
            return []
        changed = replace(mine, workload=other)
        text = f"after {about} changed in place, in the same memory, "
        found.append(_blamed(call, judge.forward(changed), text, _REMEMBERED))
    return found


def _one_changed(array: np.ndarray) -> np.ndarray:
    """Another vector at one place in the middle."""
    other = array.copy()
    middle = other.shape[2] // 2
    other[:, :, middle] = -2 * other[:, :, middle]
    return other


def _overwritten(call: SequenceSubject, other: Workload) -> bool:
    placed: list[Any] = [call.placed(getattr(other, name)) for name in INPUTS]
    done = [call.framework.overwrite(a, b) for a, b in zip(call.inputs, placed, strict=True)]
    return all(array is not None for array in done)


def _backward_after_another(call: SequenceSubject, workload: Workload) -> Measurement:
    """Two forward passes, then the backward of the first."""
    other = call.on(make(replace(workload.spec, seed=workload.spec.seed + 4000)))

    def first_of_two(*inputs: Any) -> Any:
        out = call.apply(*inputs)
        other.gradients()
        return out

    _, gradients = call.framework.gradients(first_of_two, call.inputs, call.grad_out)
    comparisons = [
        judge.compare(name, array, call)
        for name, array in zip(("dq", "dk", "dv"), gradients, strict=True)
    ]
    about = "when another call comes before the backward, "
    return _blamed(call, comparisons, about, _NOT_ITS_OWN)
