"""Reading of an instrument: a number, or the reason why there is none."""

from dataclasses import dataclass

from assay.records.schema import Measurement, Status


@dataclass(frozen=True, kw_only=True)
class Reading:
    """`value` is None where `reason` says why; `source` names the instrument.

    `status` is "oom" where the memory for it ran out, "refused" where others held it.
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


@dataclass(frozen=True, kw_only=True)
class Peak(Reading):
    """`value` is in bytes above the inputs and all else that was there before the call.

    With an allocator of its own, a device also says how much that had taken from the device, and
    how much of it tensors held, both over the whole process and at their largest.
    """

    reserved_bytes: int | None = None
    allocated_bytes: int | None = None

    @property
    def fragmentation(self) -> float | None:
        """Bytes that the allocator had taken over those that tensors held."""
        if not self.reserved_bytes or not self.allocated_bytes:
            return None
        return self.reserved_bytes / self.allocated_bytes
