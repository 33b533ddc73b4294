"""Arrays with the names of their dtypes, whether NumPy has such a dtype or not.

bfloat16 and float8 are kept as their bits. What is read back has the very bits that were captured.
"""

import hashlib
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from assay.errors import BadInput

# dtype -> the NumPy dtype that holds its bits
STORED_AS = {
    "float64": "float64",
    "float32": "float32",
    "float16": "float16",
    "bfloat16": "uint16",
    "float8_e4m3fn": "uint8",
    "float8_e5m2": "uint8",
    "int64": "int64",
    "int32": "int32",
    "int16": "int16",
    "int8": "int8",
    "uint64": "uint64",
    "uint32": "uint32",
    "uint16": "uint16",
    "uint8": "uint8",
    "bool": "bool",
}
# Of float8: bits of the exponent and of the fraction, and the exponent's bias.
_FLOAT8 = {"float8_e4m3fn": (4, 3, 7), "float8_e5m2": (5, 2, 15)}
FLOATS = ("float64", "float32", "float16", "bfloat16", *_FLOAT8)


@dataclass(frozen=True, eq=False)
class Tensor:
    """An array; `bits` holds its values, or the bits of a dtype that NumPy lacks."""

    dtype: str
    bits: np.ndarray

    def __post_init__(self) -> None:
        if self.dtype not in STORED_AS:
            raise BadInput(f"dtype {self.dtype!r} is not one of {', '.join(STORED_AS)}")
        if self.bits.dtype != np.dtype(STORED_AS[self.dtype]):
            raise BadInput(
                f"{self.dtype} is held in {STORED_AS[self.dtype]}, this array is {self.bits.dtype}"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        return self.bits.shape

    @property
    def nbytes(self) -> int:
        return self.bits.nbytes

    def numbers(self) -> np.ndarray:
        """Return the values: float32 where the dtype is a narrower float, else as they are."""
        if self.dtype == "bfloat16":
            return (self.bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
        if self.dtype in _FLOAT8:
            return _float8_values(self.dtype)[self.bits]
        return self.bits.astype(np.float32) if self.dtype == "float16" else self.bits

    def digest(self) -> str:
        """Return 32 hex digits that name dtype, shape and bits."""
        content = hashlib.blake2b(f"{self.dtype}{self.shape}".encode(), digest_size=16)
        content.update(np.ascontiguousarray(self.bits))
        return content.hexdigest()


def tensor_of(array: Any, dtype: str | None = None) -> Tensor:
    """Return the tensor of a NumPy array; of bits where `dtype` names one that NumPy lacks.

    Arrays that JAX gives as bfloat16 or float8 carry that name themselves.
    """
    values = np.asarray(array)
    name = dtype or values.dtype.name
    if name in STORED_AS and values.dtype.name == name and STORED_AS[name] != name:
        values = values.view(STORED_AS[name])
    return Tensor(name, values)


@cache
def _float8_values(dtype: str) -> np.ndarray:
    """Values of the 256 bit patterns (Micikevicius et al., arXiv 2209.05433, table 1)."""
    exponent_bits, fraction_bits, bias = _FLOAT8[dtype]
    patterns = np.arange(256)
    sign = np.where(patterns & 0x80, -1.0, 1.0)
    exponent = (patterns >> fraction_bits) & ((1 << exponent_bits) - 1)
    fraction = (patterns & ((1 << fraction_bits) - 1)) / (1 << fraction_bits)
    normal = np.exp2(exponent - float(bias)) * (1 + fraction)
    values = sign * np.where(exponent == 0, np.exp2(1.0 - bias) * fraction, normal)
    top = exponent == (1 << exponent_bits) - 1
    if dtype == "float8_e5m2":
        values = np.where(top, np.where(fraction == 0, sign * np.inf, np.nan), values)
    else:  # only all ones is special: there is no infinity
        values = np.where(top & (fraction == 0.875), np.nan, values)
    return values.astype(np.float32)
