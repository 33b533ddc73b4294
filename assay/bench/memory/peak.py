"""The most memory that one call held, as each instrument gives it."""

from dataclasses import dataclass

from assay.bench.reading import Reading


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
        """What the allocator had taken, over what tensors held."""
        if not self.reserved_bytes or not self.allocated_bytes:
            return None
        return self.reserved_bytes / self.allocated_bytes
