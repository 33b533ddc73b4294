"""The length at which a device runs out of memory: predicted from smaller ones, beside the one
that was found by trying.

Memory at length S is the inputs, known from the specification, plus the peak above them, the
nonnegative polynomial fitted to the upper lengths measured. It runs out where that reaches what
the device has, less what the framework and its context hold before the first tensor.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assay.laws.ceilings import Known
from assay.laws.exponent import upper
from assay.laws.machines import device_label, device_of, host_of
from assay.laws.series import Series, series, setting_of
from assay.laws.terms import Terms, fit
from assay.records.schema import Record, Run

# Each peak, the record of the length that was found, and how many tensors of q's size go in.
FORWARD, TRAINING = "forward_peak_bytes", "training_peak_bytes"
_OBSERVED = {FORWARD: "oom_length", TRAINING: "training_oom_length"}
_OF_QUERY_SIZE = {FORWARD: 1, TRAINING: 2}  # q, and in training the gradient of the output
OVERHEAD = "device_overhead_bytes"
_ELEMENT_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


@dataclass(frozen=True, kw_only=True)
class OomLength:
    """Where one subject runs out; `reason` says why the prediction or its error is None."""

    host: str
    shape: str
    subject: str
    metric: str  # the peak that was fitted
    capacity_bytes: float | None
    predicted: float | None
    low: float | None
    high: float | None
    observed: float | None
    reason: str | None

    @property
    def difference(self) -> float | None:
        """Predicted over observed, less one."""
        if self.predicted is None or not self.observed:
            return None
        return self.predicted / self.observed - 1


def oom_lengths(records: Sequence[Record], *, capacities: Mapping[str, Known]) -> list[OomLength]:
    """A prediction, or why there is none, for every curve of a peak; `capacities` in bytes by
    host."""
    observed = _observed(records)
    return [
        _oom_length(curve, _room(curve.setting.host, capacities, records), observed)
        for curve in series(records, (FORWARD, TRAINING))
    ]


def capacity(run: Run) -> Known:
    """Bytes of memory of the accelerator that a run measured on."""
    label, device = device_label(run), device_of(run)
    reason = f"the memory of {label} is not known"
    if label is None or label == "cpu":
        reason = f"the run measured on {label or 'a device not named'}, not on an accelerator"
    elif device is None:
        reason = f"run.json does not describe {label}"
    elif device.get("memory_bytes"):
        return Known(value=device["memory_bytes"])
    return Known(value=None, reason=reason)


def capacities(runs: Sequence[Run]) -> dict[str, Known]:
    """The capacity of each host of some runs, as records name hosts."""
    found: dict[str, Known] = {}
    for run in runs:
        size = capacity(run)
        if size.value is not None or host_of(run) not in found:
            found[host_of(run)] = size
    return found


def input_bytes(spec: Mapping[str, object], metric: str) -> float | None:
    """Bytes of the inputs for each token of length; None where the specification lacks a size."""
    sizes = [spec.get(name) for name in ("batch", "heads", "kv_heads", "head_dim")]
    element = _ELEMENT_BYTES.get(str(spec.get("dtype")))
    if element is None or not all(isinstance(size, int) for size in sizes):
        return None
    batch, heads, kv_heads, head_dim = sizes
    vectors = _OF_QUERY_SIZE[metric] * heads + 2 * kv_heads  # type: ignore[operator]
    return float(batch * vectors * head_dim * element)  # type: ignore[operator]


def _observed(records: Sequence[Record]) -> dict[tuple[str, str, str, str], float]:
    """Lengths found by trying, by host, shape, subject and metric."""
    return {
        (record.host, setting_of(record).shape, record.subject, record.metric): record.value
        for record in records
        if record.metric in _OBSERVED.values()
        and record.status == "ok"
        and record.workload
        and record.value
    }


def _room(host: str, sizes: Mapping[str, Known], records: Sequence[Record]) -> Known:
    """What tensors may take: the capacity less the overhead, where that was measured."""
    size = sizes.get(host, Known(value=None, reason="no run.json describes this host"))
    if size.value is None:
        return size
    held = [r.value for r in records if r.host == host and r.metric == OVERHEAD and r.value]
    return Known(value=size.value - max(held, default=0.0))


def _oom_length(
    curve: Series, room: Known, observed: Mapping[tuple[str, str, str, str], float]
) -> OomLength:
    setting = curve.setting
    place = (setting.host, setting.shape, curve.subject)
    points = upper(curve.points)
    terms = fit(points)
    inputs = input_bytes(curve.spec, curve.metric)
    predicted = low = high = reason = None
    if room.value is None:
        reason = room.reason
    elif terms is None:
        reason = f"the peak is known at {len(points)} lengths; wanted three or more, none of them 0"
    elif inputs is None:
        reason = "the specification does not say all sizes, so the inputs' bytes are not known"
    else:
        predicted = _reached(terms, inputs, room.value)
        low, high, reason = _around(predicted, terms, inputs)
    return OomLength(
        host=setting.host,
        shape=setting.shape,
        subject=curve.subject,
        metric=curve.metric,
        capacity_bytes=room.value,
        predicted=predicted,
        low=low,
        high=high,
        observed=observed.get((*place, _OBSERVED[curve.metric])),
        reason=reason,
    )


def _reached(terms: Terms, inputs: float, room: float) -> float:
    """The length at which memory reaches `room`: the positive root of a quadratic."""
    square = terms.coefficients.get(2, 0.0)
    linear = terms.coefficients.get(1, 0.0) + inputs
    rest = max(room - terms.coefficients.get(0, 0.0), 0.0)
    # This form of the root holds for square = 0 too.
    return 2 * rest / (linear + (linear**2 + 4 * square * rest) ** 0.5)


def _around(
    predicted: float, terms: Terms, inputs: float
) -> tuple[float | None, float | None, str | None]:
    """The 95 % interval of the length, from that of the memory there."""
    error = terms.error(predicted)
    if error is None:
        return None, None, "as many terms as lengths fitted, so the error is not known"
    width = error / (terms.slope(predicted) + inputs)
    return max(predicted - width, 0.0), predicted + width, None
