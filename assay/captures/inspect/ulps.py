"""How many steps of its dtype one float lies from another: a distance that suits every dtype."""

import numpy as np

from assay.captures.tensor import STORED_AS


def ulps_apart(dtype: str, first: np.ndarray, second: np.ndarray) -> np.ndarray:  # of uint64
    """The number of floats of `dtype` between two, given as `Tensor.bits`; both must be finite.

    The patterns of floats of one sign are ordered as the numbers are, so those below zero are
    mirrored and the difference is a count (Dawson, Comparing Floating Point Numbers, 2012).
    """
    a, b = (_ordered(dtype, bits) for bits in (first, second))
    return np.maximum(a, b) - np.minimum(a, b)


def _ordered(dtype: str, bits: np.ndarray) -> np.ndarray:
    width = np.dtype(STORED_AS[dtype]).itemsize * 8
    patterns = np.ascontiguousarray(bits).view(f"u{width // 8}").astype(np.uint64)
    sign = np.uint64(1 << (width - 1))
    size = patterns & (sign - np.uint64(1))
    return np.where(patterns & sign, sign - size, sign + size)
