"""Which elements are wrong, in words: rows, heads, batch entries, or all by one factor."""

import numpy as np

from assay.attention.budget import ulp
from assay.workloads.workload import Workload

_AXES = ("batch row", "head", "row", "channel")
_ROUNDINGS = ("bfloat16", "float16")


def wrong_elements(tensor: str, actual: np.ndarray, right: np.ndarray, allowed: np.ndarray) -> str:
    """What the elements beyond their budget have in common; empty where nothing stands out."""
    with np.errstate(invalid="ignore"):
        wrong = ~(np.abs(actual - right) <= allowed)
    if not wrong.any() or wrong.mean() > 0.9:
        return ""
    found = []
    for axis, name in enumerate(_AXES[: wrong.ndim]):
        others = tuple(n for n in range(wrong.ndim) if n != axis)
        some = np.flatnonzero(wrong.any(axis=others))
        total = wrong.shape[axis]
        if 0 < len(some) < total and axis < 3:
            found.append(f"{_span(some, total, name)} of {tensor}")
    return "wrong only in " + ", ".join(found) if found else ""


def _span(some: np.ndarray, total: int, name: str) -> str:
    first, last = int(some[0]), int(some[-1])
    if len(some) == 1:
        which = "the last" if first == total - 1 else "the first" if first == 0 else str(first)
        return f"{which} {name}" if which.startswith("the") else f"{name} {which}"
    if len(some) == last - first + 1:
        if last == total - 1:
            return f"{name}s from {first} on"
        return f"{name}s {first} to {last}"
    return f"{len(some)} of {total} {name}s"


def constant_factor(actual: np.ndarray, right: np.ndarray, allowed: np.ndarray) -> float | None:
    """The one number that everything is multiplied by, where there is one other than 1."""
    size = float((right * right).sum())
    if not size or not np.isfinite(actual).all():
        return None
    factor = float((actual * right).sum() / size)
    if abs(factor - 1) < 0.02 or abs(factor) < 1e-3:
        return None
    fits = np.abs(actual - factor * right) <= allowed * max(1.0, abs(factor)) * 2
    return factor if fits.all() else None


def rounding_of(actual: np.ndarray, right: np.ndarray, workload: Workload) -> str | None:
    """The lower precision whose rounding the errors look like, for a tensor nearly right."""
    if workload.spec.dtype != "float32" or not np.isfinite(actual).all():
        return None
    size = np.abs(right).max()
    error = np.abs(actual - right)
    for dtype in _ROUNDINGS:
        unit = float(ulp(size, dtype))
        if 0.01 * unit < error.mean() < 0.6 * unit and error.max() < 8 * unit:
            return "float16 or TF32" if dtype == "float16" else dtype
    return None
