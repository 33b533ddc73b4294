"""What an instrument says about a call: a number, or the reason why there is none."""

from dataclasses import dataclass
from types import ModuleType

from assay import plugins
from assay.bench.call import Call
from assay.records.schema import Measurement, Status


@dataclass(frozen=True, kw_only=True)
class Reading:
    """`value` is None where `reason` says why; `source` names the instrument.

    `status` is "oom" where the memory for it ran out.
    """

    value: float | None
    source: str | None = None
    reason: str | None = None
    status: Status = "ok"

    def measurement(self, metric: str, unit: str) -> Measurement:
        """As a record of the call that it was read from."""
        return Measurement(
            metric=metric,
            value=self.value,
            unit=unit,
            reason=self.reason,
            status=self.status,
            # Else the subject would be tried again, for all that was read of it before.
            alone=self.status == "oom",
            source=self.source,
            level="kernel",
        )


def instruments_of(call: Call) -> ModuleType:
    """What can be read about a call in its framework."""
    return plugins.load(plugins.find("instruments", call.implementation.framework))
