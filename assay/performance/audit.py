"""Holds what the clock said against what the device said."""

import msgspec

from assay.records.schema import Measurement

_SHARE = 0.8  # of the time at work; a profiler's own clock may differ by a little
_RESOLUTION_MS = 0.005


class Audit:
    """Remembers how long each subject's kernels were at work, and does not believe a clock that
    stopped before them. Work is both what kernels take together (less, where launches are late)
    and the time from the first to the last (less, where they overlap)."""

    def __init__(self) -> None:
        self._at_work: dict[str, float] = {}

    def believed(self, measurement: Measurement) -> Measurement:
        """The measurement, or a failure in its place."""
        subject, value = measurement.subject, measurement.value
        if measurement.metric in ("device_ms", "device_span_ms") and value is not None:
            self._at_work[subject] = min(value, self._at_work.get(subject, value))
        at_work = self._at_work.get(subject)
        if measurement.metric != "latency_ms" or value is None or at_work is None:
            return measurement
        if value >= _SHARE * at_work - _RESOLUTION_MS:
            return measurement
        reason = (
            f"the clock stopped after {value:.4g} ms, but its kernels are at work for "
            f"{at_work:.4g} ms: work goes on after the clock has stopped"
        )
        return msgspec.structs.replace(
            measurement, value=None, samples=[], status="failed", reason=reason
        )
