"""Gradients against the float64 reference: of all inputs, of each alone, for an expanded dO."""

from dataclasses import replace

import numpy as np

from assay.attention.budget import TENSORS
from assay.correctness import judge
from assay.correctness.cases import Plan
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.expected import expected, scores
from assay.subjects.sequence import INPUTS, SequenceSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload

EVERY_WORKLOAD = True

# Above these numbers of scores, asking once more costs too much.
_ALONE_SCORES = 1 << 24
_EXPANDED_SCORES = 100_000


def cases(plan: Plan) -> list[WorkloadSpec]:
    """Random ones, other than those of accuracy."""
    return plan.random(plan.count // 2, "gradients")


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """dq, dk and dv together, then what may change when they are asked for in another way."""
    if not call.has_backward:
        return [judge.unsupported("gradients", "it says that it has no backward here")]
    found = judge.measurements(judge.backward(call)[1:])
    right = all(measurement.status == "ok" for measurement in found)
    if right and isinstance(call, SequenceSubject):  # of a layer, all are asked for together
        size = scores(workload.spec)
        found += _each_alone(call) if size <= _ALONE_SCORES else []
        found += _expanded(call, workload) if size <= _EXPANDED_SCORES else []
    return found


def _each_alone(call: SequenceSubject) -> list[Measurement]:
    """Only one input requires a gradient."""
    found = []
    for index, (name, tensor) in enumerate(zip(INPUTS, TENSORS[1:], strict=True)):
        wanted = tuple(place == index for place in range(3))
        _, gradients = call.gradients(wanted=wanted)
        comparison = judge.compare(tensor, gradients[index], call)
        about = f"when only {name} requires a gradient, "
        cause = "the backward mixes up which inputs need a gradient (needs_input_grad)"
        found.append(judge.verdict(f"gradient_of_{name}_alone", [comparison], about, cause))
    return found


def _expanded(call: SequenceSubject, workload: Workload) -> list[Measurement]:
    """The gradient that `out.sum()` sends back: one number, expanded, with strides of zero."""
    ones = np.ones_like(workload.grad_out)
    like = replace(workload, grad_out=ones)
    one = call.placed(ones[:1, :1, :1, :1])
    _, gradients = call.gradients(grad_out=call.framework.expanded(one, call.inputs[0].shape))
    right = expected(like)
    comparisons = [
        judge.compare(tensor, array, call, right)
        for tensor, array in zip(TENSORS[1:], gradients, strict=True)
    ]
    about = "for a gradient expanded from one number (strides of zero), "
    cause = "the backward takes dO to be contiguous and does not use its strides"
    return [judge.verdict("gradients_of_an_expanded_dO", comparisons, about, cause)]
