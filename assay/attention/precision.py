"""Precision that an implementation declares for float32: FLOAT32 = "tf32" beside its function.

Tensor cores multiply float32 in TF32, with 10 bits of mantissa, and add up in float32. What says
that it does so is held to the error of that, and every verdict about it says so too.
"""

from assay.errors import BadInput

IEEE, TF32 = FLOAT32 = ("ieee", "tf32")
THROUGH_TF32 = "float32 through TF32, as declared"


def is_tf32(dtype: str, declared: str) -> bool:
    """Return whether products of this dtype are declared to be of TF32."""
    return dtype == "float32" and declared == TF32


def parse(stated: object, *, place: str) -> str:
    """Return FLOAT32 as a file states it; BadInput for what it cannot be."""
    if stated not in FLOAT32:
        raise BadInput(
            f"{place}: FLOAT32 is {stated!r}; wanted {IEEE!r}, products of float32 as they are, or "
            f"{TF32!r}, products with 10 bits of mantissa that are added up in float32"
        )
    return str(stated)
