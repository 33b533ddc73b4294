"""Causality: changes after a cut leave the rows before it as they are, in both directions."""

from dataclasses import replace

import numpy as np

from assay.correctness import judge
from assay.correctness.cases import CaseGenerator
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.sequence import SequenceSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.values import rounded
from assay.workloads.workload import Workload

_SEES = (
    "a query sees the future: the causal mask is missing or misplaced, a tile past the diagonal is "
    "not masked, or the mask only adds a finite number, which a large score outweighs"
)
_BLIND = "queries that see no key must give zeros, and take the values of hidden keys instead"
_NAN = "scores of the future enter before they are masked: a maximum is taken over hidden keys"
_BACKWARD_SEES = "the backward ignores the mask: gradients flow to keys that the forward hid"
_NEGLIGIBLE = 1e-6  # of the largest gradient
# So large that a future key would win the softmax if it were let in, or only lowered by 1e4; below
# the 65504 that torch itself subtracts for cuDNN, and within what float16 holds after a product
# over head_dim.
_LOUD = {"float32": 8e3, "bfloat16": 8e3, "float16": 300.0}


def cases(generator: CaseGenerator) -> list[WorkloadSpec]:
    """Return causal cases with lengths of one, several and many tiles, equal and not."""
    pairs = ((33, 33), (65, 129))
    if not generator.quick:
        pairs = ((2, 2), *pairs, (130, 130), (129, 65))
    specs = [
        generator.spec(query_length=q, key_length=k, kv_heads=1 + number % 2, dtype=dtype)
        for number, (q, k) in enumerate(pairs)
        for dtype in generator.dtypes
    ]
    return generator.long() + specs


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Measure how far rows before a cut move with the keys after it, and gradients across it."""
    if not workload.spec.causal or workload.spec.extras:
        return [judge.unsupported("causality", "the workload is not plainly causal")]
    allowed = 2 * call.expected(workload).allowed["out"].largest
    before = judge.values(call)
    measurements = []
    for row in _cuts(workload.spec):
        measurements.append(_moved_output(call, workload, allowed, before, row))
        if call.has_backward:
            measurements.append(_leaked_gradient(call, workload, row))
    return measurements or [judge.unsupported("causality", "every query sees every key")]


def _cuts(spec: WorkloadSpec) -> list[int]:
    """Return query rows after which there is a future: the first, the last but one, one between."""
    ahead = spec.key_length - spec.query_length
    rows = {max(0, -ahead), spec.query_length // 2, spec.query_length - 2}
    return sorted(row for row in rows if row >= 0 <= row + ahead < spec.key_length - 1)


def _first_hidden(spec: WorkloadSpec, row: int) -> int:
    return row + spec.key_length - spec.query_length + 1


def _first_seeing(spec: WorkloadSpec) -> int:
    return max(0, spec.query_length - spec.key_length)


def _moved_output(
    call: SequenceSubject, workload: Workload, allowed: np.ndarray, before: np.ndarray, row: int
) -> Measurement:
    """Replace keys and values after the cut by loud ones: rows up to `row` must stay."""
    spec, hidden = workload.spec, _first_hidden(workload.spec, row)
    generator = np.random.Generator(np.random.Philox(spec.seed + row))
    k, v = workload.k.copy(), workload.v.copy()
    loud = generator.standard_normal(k[:, :, hidden:].shape) * _LOUD[spec.dtype]
    k[:, :, hidden:] = rounded(loud.astype(np.float32), spec.dtype)
    v[:, :, hidden:] = 100.0
    if not np.isfinite(before[:, :, : row + 1]).all():
        text = f"query {row} or one before it is not finite, before any key changes"
        return judge.failed("causality", text)
    after = judge.values(call.on(replace(workload, k=k, v=v)))
    moved = np.abs(after - before)[:, :, : row + 1] / allowed[:, :, : row + 1]
    if not np.isfinite(moved).all():
        text = f"query {row} and those before it turn NaN when keys from {hidden} on change"
        return judge.failed("causality", text, _NAN)
    query = int(np.unravel_index(moved.argmax(), moved.shape)[2])
    text = f"query {query} moves when only keys from {hidden} on change"
    sees = (moved[:, :, _first_seeing(spec) :] > 1).any()
    return judge.unmoved("causality", moved, text, _SEES if sees else _BLIND)


def _leaked_gradient(call: SequenceSubject, workload: Workload, row: int) -> Measurement:
    """Send a gradient to rows up to `row` only: keys and values after the cut must get none."""
    if not (leak := _leak(call, workload, 0, row)):
        return judge.passed("causality")
    seeing = _first_seeing(workload.spec)
    if seeing and not _leak(call, workload, seeing, row):
        return judge.failed("causality", leak.reason, _BLIND)
    return leak


def _leak(call: SequenceSubject, workload: Workload, first: int, last: int) -> Measurement | None:
    """The failure that gradients of the queries `first` to `last` reach keys after them, if any."""
    hidden, loss = _first_hidden(workload.spec, last), f"for a loss over queries {first} to {last}"
    grad_out = np.zeros_like(workload.grad_out)
    grad_out[:, :, first : last + 1] = workload.grad_out[:, :, first : last + 1]
    _, gradients = call.gradients(grad_out=call.placed(grad_out))
    for name, gradient in zip(("dk", "dv"), gradients[1:], strict=True):
        if call.form_problem(name, gradient):
            continue  # the gradients probe reports it
        sizes = np.abs(call.numpy(gradient))
        if not np.isfinite(sizes).all():
            return judge.failed("causality", f"{name} is not finite {loss}")
        leaked = sizes[:, :, hidden:]
        if not (leaked <= _NEGLIGIBLE * sizes.max()).all():
            text = f"{name} of keys from {hidden} on is up to {leaked.max():.3g} {loss}"
            return judge.failed("causality", text, _BACKWARD_SEES)
    return None
