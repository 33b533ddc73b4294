"""The output that a model computed, against that of this call: bit for bit where both are one."""

from typing import Any

import numpy as np

from assay.correctness import judge
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.outcome import Unsupported
from assay.subjects.sequence import SequenceSubject
from assay.workloads.workload import Captured, Workload

EVERY_WORKLOAD = True
CAPTURED = True

METRIC = "replayed_differences"
LARGEST = "replayed_largest_difference"
_LAYOUTS = {"BSHD": "transposed"}  # how captured inputs lay in memory -> a workload's layout


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """How many elements differ from the captured output; none may where the same implementation
    computed it with the same versions on the same kind of device."""
    captured = workload.captured
    if captured is None:
        raise Unsupported("what the model computed of it was not stored, or was under dropout")
    actual = np.asarray(call.numpy(_output(call, workload, captured)), dtype=np.float64)
    rows = np.broadcast_to(captured.rows[..., None], actual.shape)
    if strange := int((~np.isfinite(actual) & np.isfinite(captured.out) & rows).sum()):
        text = f"{strange} of {actual.size} elements are NaN or infinite, the model's are not"
        return [judge.failed(METRIC, text)]
    different = (actual != captured.out) & rows
    with np.errstate(invalid="ignore"):  # an infinity less itself
        apart = np.where(different, np.abs(actual - captured.out), 0.0)
    count, largest = int(different.sum()), float(apart.max(initial=0.0))
    other = _otherness(call, captured, host)
    if other is None and count:
        text = (
            f"{count} of {different.size} elements of the output differ from what the model "
            f"computed with the same implementation, by up to {largest:.3g}"
        )
        cause = "inputs, mask or scale of the call are not those that the model used"
        return [judge.failed(METRIC, text, cause)]
    source = f"the model's own output, {other or 'of the same implementation and versions'}"
    return [
        Measurement(metric=METRIC, value=float(count), unit="count", source=source),
        Measurement(metric=LARGEST, value=largest, unit="", source=source),
    ]


def _output(call: SequenceSubject, workload: Workload, captured: Captured) -> Any:
    """The call on inputs that lie in memory as the model's did, where that can be had: kernels may
    choose their order of summation by it."""
    layout = _LAYOUTS.get(captured.order or "", "plain")
    if layout not in call.framework.layouts() or call.implementation.layout != "BHSD":
        return call()
    arrays = (workload.q, workload.k, workload.v)
    return call.apply(*(call.placed(array, layout) for array in arrays))


def _otherness(call: SequenceSubject, captured: Captured, host: Host) -> str | None:
    """Why the bits may differ; None where they may not."""
    if captured.implementation != call.name:
        return f"computed by {captured.implementation or 'something unknown'}"
    if captured.device.partition(":")[0] != call.device.partition(":")[0]:
        return f"computed on {captured.device}"
    framework = call.implementation.framework
    there, here = captured.versions.get(framework), host.versions.get(framework)
    if there != here:
        return f"computed with {framework} {there}, here is {here}"
    return None
