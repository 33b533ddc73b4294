"""Holds what the clock said against what the device said."""

import msgspec

from assay.records.schema import Measurement

_SHARE = 0.8  # of the span of its kernels that a clock may be short of, for its own resolution
_RESOLUTION_MS = 0.005


class Audit:
    """Remembers how long each subject's kernels were at work, and does not believe a clock that
    stopped before them."""

    def __init__(self) -> None:
        self._spans: dict[str, float] = {}

    def believed(self, measurement: Measurement) -> Measurement:
        """The measurement, or a failure in its place."""
        if measurement.metric == "device_span_ms" and measurement.value is not None:
            self._spans[measurement.subject] = measurement.value
        span = self._spans.get(measurement.subject)
        if measurement.metric != "latency_ms" or measurement.value is None or span is None:
            return measurement
        if measurement.value >= _SHARE * span - _RESOLUTION_MS:
            return measurement
        reason = (
            f"the clock stopped after {measurement.value:.4g} ms, but its kernels are at work for "
            f"{span:.4g} ms: work goes on after the clock has stopped"
        )
        return msgspec.structs.replace(
            measurement, value=None, samples=[], status="failed", reason=reason
        )
