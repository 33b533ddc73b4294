"""Precision that an implementation declares beside its function, and what it does to its budget.

FLOAT32 = "tf32": tensor cores multiply float32 in TF32, with 10 bits of mantissa, and add up in
float32. FP8 = {"format": "e4m3", "scale": "head"}: q, k and v are rounded to FP8, with the scale
that makes the largest of a head (of a token, of the whole tensor) the largest number there is, and
so are the weights of the softmax. What says that it does so is held to the error of that, and every
verdict about it says so too.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.errors import BadInput
from assay.workloads.values import FLOAT8, rounded_to_float8, truncated_to_tf32

IEEE, TF32 = FLOAT32 = ("ieee", "tf32")
TF32_UNIT = 2.0**-10
SCALES = {"token": (3,), "head": (2, 3), "tensor": (0, 1, 2, 3)}  # axes that share a scale
THROUGH_TF32 = "float32 through TF32, as declared"


@dataclass(frozen=True, kw_only=True)
class Precision:
    """The precision of a file: FLOAT32, and FP8 where its inputs are rounded to that."""

    float32: str = IEEE
    format: str | None = None
    scale: str | None = None

    def words(self, dtype: str) -> str | None:
        """Return what is declared of this dtype, as verdicts say it; None where that is nothing."""
        if self.format:
            return f"inputs in FP8 {self.format} with a scale for each {self.scale}, as declared"
        return THROUGH_TF32 if self.is_tf32(dtype) else None

    @property
    def declared(self) -> tuple[str, Any]:
        """The declaration that verdicts depend on, its name and its value, as data."""
        if self.format:
            return "fp8", {"format": self.format, "scale": self.scale}
        return "float32", self.float32

    def unit(self, dtype: str) -> float | None:
        """Return the unit in the last place of 1 where it is declared of this dtype."""
        if self.format:
            return 2.0 ** -FLOAT8[self.format].bits
        return TF32_UNIT if self.is_tf32(dtype) else None

    def is_tf32(self, dtype: str) -> bool:
        """Return whether products of this dtype are declared to be of TF32."""
        return dtype == "float32" and self.float32 == TF32

    def input(self, values: np.ndarray) -> np.ndarray:
        """Return q, k or v, [B, H, S, D], as they are read."""
        if not self.format:
            return values
        largest = np.abs(values).max(axis=SCALES[str(self.scale)], keepdims=True)
        scale = np.where(largest > 0, largest / FLOAT8[self.format].largest, 1).astype(np.float32)
        return rounded_to_float8(values / scale, self.format) * scale

    def weights(self, values: np.ndarray) -> np.ndarray:
        """Return weights of the softmax, each at most 1, as they are multiplied."""
        return rounded_to_float8(values, self.format) if self.format else values

    def product(self, left: np.ndarray, right: np.ndarray, dtype: str) -> np.ndarray:
        """Return a product of matrices of this dtype."""
        if self.is_tf32(dtype):
            return truncated_to_tf32(left) @ truncated_to_tf32(right)
        return left @ right


PLAIN = Precision()


def parse(float32: object, fp8: object, *, place: str) -> Precision:
    """Return FLOAT32 and FP8 as a file states them; BadInput for what they cannot be."""
    if float32 not in FLOAT32:
        raise BadInput(
            f"{place}: FLOAT32 is {float32!r}; wanted {IEEE!r}, products of float32 as they are, "
            f"or {TF32!r}, products with 10 bits of mantissa that are added up in float32"
        )
    if fp8 is None:
        return Precision(float32=str(float32))
    if (
        not isinstance(fp8, dict)
        or set(fp8) != {"format", "scale"}
        or fp8["format"] not in tuple(FLOAT8)
        or fp8["scale"] not in tuple(SCALES)
    ):
        raise BadInput(
            f"{place}: FP8 is {fp8!r}; wanted a dict with the format ({', '.join(FLOAT8)}) and "
            f"what shares a scale ({', '.join(SCALES)}), such as "
            '{"format": "e4m3", "scale": "head"}'
        )
    return Precision(float32=str(float32), format=fp8["format"], scale=fp8["scale"])
