"""Gradients against the float64 reference: of all inputs, of each alone, for an expanded dO."""

from dataclasses import replace
from typing import Any

import numpy as np

from assay.attention.budget import TENSORS
from assay.correctness import judge
from assay.correctness.cases import CaseGenerator
from assay.correctness.refusal import refusal_text
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.contract import TensorComparison
from assay.subjects.expected import scores
from assay.subjects.sequence import INPUTS, SequenceSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload

EVERY_WORKLOAD = True

# Numbers of scores above which another backward pass costs too much.
_ALONE_SCORES = 1 << 24
_EXPANDED_SCORES = 100_000


def cases(generator: CaseGenerator) -> list[WorkloadSpec]:
    """Return random cases, other than those of accuracy."""
    return generator.random(generator.count // 2, "gradients")


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Compare dq, dk and dv; where they hold, each alone and those for an expanded dO too."""
    if not call.has_backward:
        return [judge.unsupported("gradients", "it has no backward here")]
    measurements = judge.measurements(judge.compare_backward(call)[1:])
    right = all(measurement.status == "ok" for measurement in measurements)
    if right and isinstance(call, SequenceSubject):  # a layer computes all of them together
        size = scores(workload.spec)
        measurements += _each_alone(call) if size <= _ALONE_SCORES else []
        if size <= _EXPANDED_SCORES and not call.as_models_lay_out:  # one layout for each shape
            measurements += _expanded(call, workload)
    return measurements


def _each_alone(call: SequenceSubject) -> list[Measurement]:
    """Compare the gradient of each input where no other requires one."""
    measurements = []
    for index, (name, tensor) in enumerate(zip(INPUTS, TENSORS[1:], strict=True)):
        _, gradients = call.gradients(wanted=tuple(place == index for place in range(3)))
        comparison = judge.compare(tensor, gradients[index], call)
        prefix = f"when only {name} requires a gradient, "
        cause = "the backward mixes up which inputs need a gradient (needs_input_grad)"
        metric = f"gradient_of_{name}_alone"
        measurements.append(judge.worst(metric, [comparison], prefix, cause))
    return measurements


def _expanded(call: SequenceSubject, workload: Workload) -> list[Measurement]:
    """Compare gradients for the dO of `out.sum()`: a single 1, expanded, with strides of zero.

    Strides are blamed only where the gradients of the same dO in contiguous memory are right.
    """
    ones = np.ones_like(workload.grad_out)
    right = call.expected(replace(workload, grad_out=ones))

    def comparisons(grad_out: Any) -> list[TensorComparison]:
        _, gradients = call.gradients(grad_out=grad_out)
        return [
            judge.compare(tensor, array, call, right)
            for tensor, array in zip(TENSORS[1:], gradients, strict=True)
        ]

    single = call.placed(ones[:1, :1, :1, :1])
    try:
        expanded = comparisons(call.framework.expanded(single, call.inputs[0].shape))
    except Exception as error:
        if refusal_text(error):  # of this dO, not of the case: strides tells of it
            return []
        raise
    held, cause = all(c.holds for c in expanded), None
    if not held and all(c.holds for c in comparisons(call.placed(ones))):
        cause = "the backward takes dO to be contiguous and does not use its strides"
    prefix = "for a gradient expanded from one number (strides of zero), "
    return [judge.worst("gradients_of_an_expanded_dO", expanded, prefix, cause)]
