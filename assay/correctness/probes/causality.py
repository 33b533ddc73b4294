"""The future must not matter: change it, and see whether anything before it moves."""

from dataclasses import replace

import numpy as np

from assay.correctness import judge
from assay.correctness.cases import Plan
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.contract import Expected
from assay.subjects.expected import expected
from assay.subjects.sequence import SequenceSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.values import rounded
from assay.workloads.workload import Workload

# So large that a future key would win the softmax if it were let in, or only pushed down by 1e4;
# below the 65504 that torch itself takes off for cuDNN, and within what float16 holds after a
# product over head_dim.
_SEES = (
    "a query sees the future: the causal mask is missing or misplaced, a tile past the diagonal is "
    "not masked, or the mask only adds a finite number, which a large score outweighs"
)
_NAN = "scores of the future enter before they are masked: a maximum is taken over hidden keys"
_BACKWARD_SEES = "the backward ignores the mask: gradients flow to keys that the forward hid"
_NOTHING = 1e-6  # of the largest gradient
_LOUD = {"float32": 8e3, "bfloat16": 8e3, "float16": 300.0}


def cases(plan: Plan) -> list[WorkloadSpec]:
    """Causal, with lengths of one and of several tiles, equal and not."""
    pairs = (
        ((33, 33), (65, 129))
        if plan.quick
        else ((2, 2), (33, 33), (65, 129), (130, 130), (129, 65))
    )
    return [
        plan.spec(
            query_length=q, key_length=k, heads=2, kv_heads=1 + number % 2, dtype=dtype, head_dim=32
        )
        for number, (q, k) in enumerate(pairs)
        for dtype in plan.dtypes
    ]


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Rows before a cut with other keys and values after it; then gradients across the cut."""
    if not workload.spec.causal or workload.spec.extras:
        return [judge.unsupported("causality", "the workload is not plainly causal")]
    right = expected(workload)
    before = judge.values(call)
    found = []
    for row in _cuts(workload.spec):
        found.append(_output_moves(call, workload, right, before, row))
        if call.has_backward:
            found.append(_gradient_crosses(call, workload, row))
    return found or [judge.unsupported("causality", "every query sees every key")]


def _cuts(spec: WorkloadSpec) -> list[int]:
    """Query rows after which there is a future: the first, the last but one, one between."""
    ahead = spec.key_length - spec.query_length
    rows = {max(0, -ahead), spec.query_length // 2, spec.query_length - 2}
    return sorted(row for row in rows if row >= 0 <= row + ahead < spec.key_length - 1)


def _first_hidden(spec: WorkloadSpec, row: int) -> int:
    return row + spec.key_length - spec.query_length + 1


def _output_moves(
    call: SequenceSubject, workload: Workload, right: Expected, before: np.ndarray, row: int
) -> Measurement:
    spec, hidden = workload.spec, _first_hidden(workload.spec, row)
    generator = np.random.Generator(np.random.Philox(spec.seed + row))
    k, v = workload.k.copy(), workload.v.copy()
    loud = generator.standard_normal(k[:, :, hidden:].shape) * _LOUD[spec.dtype]
    k[:, :, hidden:] = rounded(loud.astype(np.float32), spec.dtype)
    v[:, :, hidden:] = 100.0
    other = call.on(replace(workload, k=k, v=v))
    after = judge.values(other)
    moved = np.abs(after - before)[:, :, : row + 1] / (
        2 * right.allowed["out"].largest[:, :, : row + 1]
    )
    if not np.isfinite(moved).all():
        text = f"query {row} and those before it turn NaN when keys from {hidden} on change"
        return judge.failed("causality", text, _NAN)
    if moved.max() > 1:
        where = int(np.unravel_index(moved.argmax(), moved.shape)[2])
        text = (
            f"query {where} moves when only keys from {hidden} on change, "
            f"by {moved.max():.3g} times what rounding explains"
        )
        return judge.failed("causality", text, _SEES)
    return judge.holds("causality", float(moved.max()))


def _gradient_crosses(call: SequenceSubject, workload: Workload, row: int) -> Measurement:
    """A loss over the rows up to a cut must send nothing to the keys and values after it."""
    hidden = _first_hidden(workload.spec, row)
    grad_out = workload.grad_out.copy()
    grad_out[:, :, row + 1 :] = 0.0
    _, gradients = call.gradients(grad_out=call.placed(grad_out))
    for name, gradient in zip(("dk", "dv"), gradients[1:], strict=True):
        if call.form_problem(name, gradient):
            continue  # the gradients probe tells
        values = np.abs(call.numpy(gradient))
        leaked = values[:, :, hidden:]
        if not (leaked <= _NOTHING * values.max()).all():
            text = (
                f"{name} of keys from {hidden} on is up to {leaked.max():.3g} for a loss over "
                f"queries up to {row} only"
            )
            return judge.failed("causality", text, _BACKWARD_SEES)
    return judge.holds("causality")
