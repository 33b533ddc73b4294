"""Correctness before timing: a probe says in NEEDS which others must have passed before it.

Where one of them is not among those that were asked for, an earlier stage has seen to it.
"""

from collections.abc import Iterable, Mapping
from types import ModuleType

from assay.records.schema import SEVERITY, Measurement


class Gates:
    """What the probes of one cell said of its subjects, as far as others need it."""

    def __init__(self, probes: Mapping[str, ModuleType]) -> None:
        self._probes = probes
        self._worst: dict[tuple[str, str], Measurement] = {}

    def in_order(self) -> list[str]:
        """What others need, then what is paired, then the rest."""
        needed = {need for name in self._probes for need in self._needs(name)}

        def turn(name: str) -> int:
            if name in needed:
                return 0
            return 1 if getattr(self._probes[name], "PAIRED", False) else 2

        return sorted(self._probes, key=turn)

    def saw(self, probe: str, measurement: Measurement) -> None:
        """Remember the worst that a probe said of a subject."""
        key = (probe, measurement.subject)
        known = self._worst.setdefault(key, measurement)
        self._worst[key] = min(known, measurement, key=lambda one: SEVERITY.index(one.status))

    def refusals(self, probe: str, subjects: Iterable[str]) -> dict[str, Measurement]:
        """Who is not measured by a probe, because of what another said."""
        found = {}
        for subject in subjects:
            for need in self._needs(probe):
                verdict = self._worst.get((need, subject))
                if verdict and verdict.status != "ok":
                    found[subject] = _refused(probe, need, verdict)
                    break
        return found

    def _needs(self, name: str) -> list[str]:
        return [need for need in getattr(self._probes[name], "NEEDS", ()) if need in self._probes]


def _refused(probe: str, need: str, verdict: Measurement) -> Measurement:
    """What does not apply to a subject is no reproach to it."""
    alike = verdict.status in ("unsupported", "oom")
    return Measurement(
        metric=probe,
        value=None,
        unit="",
        status=verdict.status if alike else "refused",
        reason=f"not measured: its {need} is {verdict.status}: {verdict.reason}",
        alone=verdict.alone,
    )
