"""Correctness before timing, and no clock that stopped before the kernels did.

A probe says in NEEDS which others must have passed before it. Where one of them is not among those
of the cell, an earlier stage has seen to it.
"""

from collections.abc import Iterable, Mapping
from types import ModuleType

import msgspec

from assay.records.schema import SEVERITY, Measurement

_SHARE = 0.8  # of the time at work; a profiler's own clock may differ by a little
_RESOLUTION_MS = 0.005


class Admission:
    """The verdicts of a cell's probes on its subjects, and who may be measured by which probe."""

    def __init__(self, probes: Mapping[str, ModuleType]) -> None:
        self._probes = probes
        self._worst: dict[tuple[str, str], Measurement] = {}
        self._at_work_ms: dict[str, float] = {}

    def in_order(self) -> list[str]:
        """Probes that others need, then paired ones, then the rest."""
        needed = {need for name in self._probes for need in self._needs(name)}

        def turn(name: str) -> int:
            if name in needed:
                return 0
            return 1 if getattr(self._probes[name], "PAIRED", False) else 2

        return sorted(self._probes, key=turn)

    def refusals(self, probe: str, subjects: Iterable[str]) -> dict[str, Measurement]:
        """Subjects that a probe does not measure, because of the verdict of another probe."""
        refused = {}
        for subject in subjects:
            for need in self._needs(probe):
                verdict = self._worst.get((need, subject))
                if verdict and verdict.status != "ok":
                    refused[subject] = _refusal(probe, need, verdict)
                    break
        return refused

    def admit(self, probe: str, measurement: Measurement) -> Measurement:
        """Remember a measurement as its probe's verdict; a time that is not believed comes back as
        a failure."""
        believed = self._believed(measurement)
        key = (probe, believed.subject)
        known = self._worst.setdefault(key, believed)
        self._worst[key] = min(known, believed, key=lambda verdict: _severity(verdict))
        return believed

    def _believed(self, measurement: Measurement) -> Measurement:
        """Hold the clock against the device's own account of its kernels.

        Work is both what kernels take together (less, where launches are late) and the time from
        the first to the last (less, where they overlap).
        """
        subject, value = measurement.subject, measurement.value
        if measurement.metric in ("device_ms", "device_span_ms") and value is not None:
            self._at_work_ms[subject] = min(value, self._at_work_ms.get(subject, value))
        at_work_ms = self._at_work_ms.get(subject)
        if measurement.metric != "latency_ms" or value is None or at_work_ms is None:
            return measurement
        if value >= _SHARE * at_work_ms - _RESOLUTION_MS:
            return measurement
        reason = (
            f"the clock stopped after {value:.4g} ms, but its kernels are at work for "
            f"{at_work_ms:.4g} ms: work goes on after the clock has stopped"
        )
        return msgspec.structs.replace(
            measurement, value=None, samples=[], status="failed", reason=reason
        )

    def _needs(self, name: str) -> list[str]:
        return [need for need in getattr(self._probes[name], "NEEDS", ()) if need in self._probes]


def _severity(verdict: Measurement) -> int:
    return SEVERITY.index(verdict.status)


def _refusal(probe: str, need: str, verdict: Measurement) -> Measurement:
    """Unsupported and out of memory are passed on as they are: they are no reproach."""
    alike = verdict.status in ("unsupported", "oom")
    return Measurement(
        metric=probe,
        value=None,
        unit="",
        status=verdict.status if alike else "refused",
        reason=f"not measured: its {need} is {verdict.status}: {verdict.reason}",
        alone=verdict.alone,
    )
