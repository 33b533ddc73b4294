"""The length at which a device runs out of memory: predicted from smaller ones, beside the one
found by trying.

Memory at length S is the inputs, known from the specification, plus the peak above them, the
nonnegative polynomial fitted to the upper lengths measured. It runs out where that reaches what
the device has, less what the framework and its context hold before the first tensor.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assay.laws.curves import DECODE, LengthCurve, curves, setting_of
from assay.laws.growth import Polynomial, fit_polynomial, upper
from assay.laws.rates import Quantity
from assay.records.schema import ELEMENT_BYTES, Record

FORWARD, TRAINING = "forward_peak_bytes", "training_peak_bytes"
_OBSERVED = {FORWARD: "oom_length", TRAINING: "training_oom_length"}  # the length found by trying
_OF_QUERY_SIZE = {FORWARD: 1, TRAINING: 2}  # q, and in training the gradient of the output
_OVERHEAD = "device_overhead_bytes"


@dataclass(frozen=True, kw_only=True)
class OomLength:
    """The length at which one subject runs out of memory; `reason` explains what is None."""

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


def oom_lengths(
    records: Sequence[Record], *, capacities: Mapping[str, Quantity]
) -> list[OomLength]:
    """A prediction, or the reason why there is none, for every curve of a peak.

    `capacities` are in bytes, by host. Steps of decoding are left out: the bytes of their inputs
    are those of a layout, which no specification gives.
    """
    observed = {
        (record.host, setting_of(record).shape, record.subject, record.metric): record.value
        for record in records
        if record.metric in _OBSERVED.values()
        and record.status == "ok"
        and record.workload
        and record.value
    }
    return [
        _oom_length(curve, _room(curve.setting.host, capacities, records), observed)
        for curve in curves([r for r in records if r.stage != DECODE], (FORWARD, TRAINING))
    ]


def input_bytes(spec: Mapping[str, object], metric: str) -> float | None:
    """Bytes of the inputs for each token of length; None where the specification lacks a size."""
    sizes = [spec.get(name) for name in ("batch", "heads", "kv_heads", "head_dim")]
    element = ELEMENT_BYTES.get(str(spec.get("dtype")))
    if element is None or not all(isinstance(size, int) for size in sizes):
        return None
    batch, heads, kv_heads, head_dim = sizes
    vectors = _OF_QUERY_SIZE[metric] * heads + 2 * kv_heads  # type: ignore[operator]
    return float(batch * vectors * head_dim * element)  # type: ignore[operator]


def _room(host: str, sizes: Mapping[str, Quantity], records: Sequence[Record]) -> Quantity:
    """Bytes that tensors may take: the capacity less the overhead, where that was measured."""
    size = sizes.get(host, "no run.json describes this host")
    if isinstance(size, str):
        return size
    held = [r.value for r in records if r.host == host and r.metric == _OVERHEAD and r.value]
    return size - max(held, default=0.0)


def _oom_length(
    curve: LengthCurve, room: Quantity, observed: Mapping[tuple[str, str, str, str], float]
) -> OomLength:
    host, shape = curve.setting.host, curve.setting.shape
    points = upper(curve.points)
    terms = fit_polynomial(points)
    inputs = input_bytes(curve.spec, curve.metric)
    predicted = low = high = reason = None
    if isinstance(room, str):
        reason = room
    elif terms is None:
        reason = f"the peak is known at {len(points)} lengths; wanted three or more, none of them 0"
    elif inputs is None:
        reason = "the specification lacks a size, so the bytes of the inputs are not known"
    else:
        predicted = _reached(terms, inputs, room)
        low, high, reason = _interval(predicted, terms, inputs)
    return OomLength(
        host=host,
        shape=shape,
        subject=curve.subject,
        metric=curve.metric,
        capacity_bytes=None if isinstance(room, str) else room,
        predicted=predicted,
        low=low,
        high=high,
        observed=observed.get((host, shape, curve.subject, _OBSERVED[curve.metric])),
        reason=reason,
    )


def _reached(terms: Polynomial, inputs: float, room: float) -> float:
    """The length at which memory reaches `room`: the positive root of a quadratic."""
    square = terms.coefficients.get(2, 0.0)
    linear = terms.coefficients.get(1, 0.0) + inputs
    rest = max(room - terms.coefficients.get(0, 0.0), 0.0)
    # This form of the root holds for square = 0 too.
    return 2 * rest / (linear + (linear**2 + 4 * square * rest) ** 0.5)


def _interval(
    predicted: float, terms: Polynomial, inputs: float
) -> tuple[float | None, float | None, str | None]:
    """The 95 % interval of the length, from that of the memory there; else a reason."""
    error = terms.error(predicted)
    if error is None:
        return None, None, "as many terms as lengths fitted, so the error is not known"
    width = error / (terms.slope(predicted) + inputs)
    return max(predicted - width, 0.0), predicted + width, None
