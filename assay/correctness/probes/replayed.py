"""The output of a call against the one that a model computed from the same inputs.

They are equal bit for bit where implementation, versions and kind of device are the same.
"""

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
_LAYOUTS = {"BSHD": "transposed"}  # a workload's layout, by the order of captured inputs in memory


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Count the elements that differ from the captured output, and measure by how much."""
    captured = workload.captured
    if captured is None:
        raise Unsupported("the model's own output was not stored, or was under dropout")
    actual = np.asarray(call.numpy(_output(call, workload, captured)), dtype=np.float64)
    rows = np.broadcast_to(captured.rows[..., None], actual.shape)
    if infinite := int((~np.isfinite(actual) & np.isfinite(captured.out) & rows).sum()):
        text = f"{infinite} of {actual.size} elements are NaN or infinite, the model's are not"
        return [judge.failed(METRIC, text)]
    different = (actual != captured.out) & rows
    with np.errstate(invalid="ignore"):  # an infinity less itself
        distance = np.where(different, np.abs(actual - captured.out), 0.0)
    count, largest = int(different.sum()), float(distance.max(initial=0.0))
    other = _why_bits_may_differ(call, captured, host)
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
    """Return the output for inputs in the memory order of the model's, where the framework has it:
    kernels may choose their order of summation by it."""
    layout = _LAYOUTS.get(captured.order or "", "plain")
    if layout not in call.framework.layouts() or call.implementation.layout != "BHSD":
        return call()
    arrays = (workload.q, workload.k, workload.v)
    return call.apply(*(call.placed(array, layout) for array in arrays))


def _why_bits_may_differ(call: SequenceSubject, captured: Captured, host: Host) -> str | None:
    """Return the difference between then and now; None where bits must be equal."""
    if captured.implementation != call.name:
        return f"computed by {captured.implementation or 'an unknown implementation'}"
    if captured.device.partition(":")[0] != call.device.partition(":")[0]:
        return f"computed on {captured.device}"
    framework = call.implementation.framework
    then, now = captured.versions.get(framework), host.versions.get(framework)
    if then != now:
        return f"computed with {framework} {then}, here is {now}"
    return None
