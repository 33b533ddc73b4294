"""Launches that a device refuses: no kernel ran, so no value of it is wrong.

An axis of a grid counts to 65,535, but for the first. A kernel that counts batch entries x heads
on another cannot be launched with more of them, and says so only by the driver's error.
"""

from assay.records.foreign_text import first_line

GRID_AXIS = 2**16 - 1  # the most blocks on the second and third axis of a grid
_REFUSED = (
    "Triton Error [CUDA]: invalid argument",
    "invalid configuration argument",  # of the runtime, as torch and extensions raise it
    "CUDA_ERROR_INVALID_VALUE",  # of the driver, as XLA does
)


def was_refused(error: BaseException) -> bool:
    """True where an error says that a device did not take a launch."""
    return any(text in str(error) for text in _REFUSED)


def beyond_grid(error: BaseException, rows: int) -> str | None:
    """Say which limit to declare where a launch was refused at so many batch entries x heads; None
    for any other error, and where an axis counts them."""
    if rows <= GRID_AXIS or not was_refused(error):
        return None
    return (
        f"{rows:,} batch entries x heads, and an axis of a grid ends at {GRID_AXIS:,} "
        f"({type(error).__name__}: {first_line(error, 200)}); "
        f"to declare it: LIMITS = {{'batch_heads': {GRID_AXIS}}}"
    )
