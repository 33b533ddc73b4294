"""Rounding to a dtype that NumPy may not have."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


def rounded(values: "np.ndarray", dtype: str) -> "np.ndarray":
    """The nearest values that `dtype` can hold, ties to even, as float32."""
    import numpy as np

    if dtype == "float32":
        return np.asarray(values, dtype=np.float32)
    if dtype == "float16":
        with np.errstate(over="ignore"):  # beyond 65504 float16 is infinite, as in the kernel
            return np.asarray(values, dtype=np.float16).astype(np.float32)
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    nearest = (bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) & np.uint32(
        0xFFFF0000
    )
    # Adding may carry a NaN's payload into an infinity; NaN stays NaN.
    return np.where(np.isnan(values), np.float32(np.nan), nearest.view(np.float32))
