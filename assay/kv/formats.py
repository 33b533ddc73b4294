"""Numbers of few bits and the scales that they share: how a layout keeps a vector in less room.

A format takes vectors [..., D] of any float dtype to tensors of its own, the last dimension packed,
and back to float32. Scales are of the vector itself, which is one token of one head, or of groups
of its numbers: what is kept of a token depends on that token alone, so a token that was written is
never touched again, and the same prefix gives the same bytes whatever follows. A scale of several
tokens is of a whole block of them, and sealed with it.

A number beyond what a format holds becomes its largest one; NaN stays NaN where the format has one.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch

from assay.errors import BadInput

# E2M1, the numbers of FP4: code 0 to 7, and 8 more below zero.
FP4 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
# Halfway between them; what lies there goes to the even code.
_FP4_BORDERS = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
_FP4_LARGEST_EXPONENT = 2
_E8M0_BIAS = 127
_SMALLEST_SCALE = 2.0**-126  # of float32 and bfloat16, for vectors of zeros and denormals


@dataclass(frozen=True)
class Part:
    """One tensor that a format keeps of vectors of a width: its dtype and its own width, and how
    many tokens share a row of it."""

    dtype: str
    width: int
    block: int = 1


class Format(ABC):
    """A way to keep vectors."""

    @abstractmethod
    def parts(self, width: int) -> dict[str, Part]:
        """Return the tensors that are kept of vectors, by what is added to their name."""

    @abstractmethod
    def encode(self, vectors: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return what is kept of vectors [..., D]."""

    @abstractmethod
    def decode(self, kept: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return vectors [..., D] in float32."""


@dataclass(frozen=True)
class Float8(Format):
    """FP8 with a bfloat16 scale for each vector, rounded up so that nothing is clipped."""

    dtype: str

    def parts(self, width: int) -> dict[str, Part]:
        return {"": Part(self.dtype, width), "_scale": Part("bfloat16", 1)}

    def encode(self, vectors: torch.Tensor) -> dict[str, torch.Tensor]:
        kind = getattr(torch, self.dtype)
        largest = torch.finfo(kind).max
        wide = vectors.float()
        scale = _scale(wide.abs().amax(-1, keepdim=True), largest)
        numbers = (wide / scale.float()).clamp(-largest, largest).to(kind)
        return {"": numbers, "_scale": scale}

    def decode(self, kept: dict[str, torch.Tensor]) -> torch.Tensor:
        return kept[""].float() * kept["_scale"].float()


@dataclass(frozen=True)
class BlockFloat8(Format):
    """FP8 with a bfloat16 scale for each block of tokens of a head, rounded up as well. Takes
    vectors [..., T, D] of whole blocks."""

    dtype: str
    block: int

    def parts(self, width: int) -> dict[str, Part]:
        return {"": Part(self.dtype, width), "_scale": Part("bfloat16", 1, self.block)}

    def encode(self, vectors: torch.Tensor) -> dict[str, torch.Tensor]:
        kind = getattr(torch, self.dtype)
        largest = torch.finfo(kind).max
        blocks = vectors.float().unflatten(-2, (-1, self.block))  # [..., T / block, block, D]
        scale = _scale(blocks.abs().amax((-2, -1))[..., None], largest)
        numbers = (blocks / scale.float()[..., None]).clamp(-largest, largest).to(kind)
        return {"": numbers.flatten(-3, -2), "_scale": scale}

    def decode(self, kept: dict[str, torch.Tensor]) -> torch.Tensor:
        return kept[""].float() * kept["_scale"].float().repeat_interleave(self.block, dim=-2)


@dataclass(frozen=True)
class Integers(Format):
    """Whole numbers of 8 bits, or of 4, two in a byte, with a bfloat16 scale for each group."""

    bits: int
    group: int = 32

    def parts(self, width: int) -> dict[str, Part]:
        _refuse_width(width, self.group)
        payload = Part("int8", width) if self.bits == 8 else Part("uint8", width // 2)
        return {"": payload, "_scale": Part("bfloat16", width // self.group)}

    def encode(self, vectors: torch.Tensor) -> dict[str, torch.Tensor]:
        _refuse_width(vectors.shape[-1], self.group)
        largest = 2 ** (self.bits - 1) - 1
        groups = vectors.float().unflatten(-1, (-1, self.group))
        scale = _scale(groups.abs().amax(-1), largest)
        numbers = (groups / scale.float()[..., None]).round().clamp(-largest, largest).flatten(-2)
        payload = numbers.to(torch.int8) if self.bits == 8 else _packed(numbers.to(torch.int8) & 15)
        return {"": payload, "_scale": scale}

    def decode(self, kept: dict[str, torch.Tensor]) -> torch.Tensor:
        numbers = kept[""]
        if self.bits == 4:
            nibbles = _unpacked(numbers).to(torch.int8)
            numbers = torch.where(nibbles > 7, nibbles - 16, nibbles)
        groups = numbers.float().unflatten(-1, (-1, self.group))
        return (groups * kept["_scale"].float()[..., None]).flatten(-2)


@dataclass(frozen=True)
class MXFloat4(Format):
    """MXFP4: FP4 with a power of two for each 32, by the rule of the OCP specification 1.0: the
    exponent of the largest number less that of FP4's largest, so that up to a third is clipped."""

    group: int = 32

    def parts(self, width: int) -> dict[str, Part]:
        _refuse_width(width, self.group)
        return {"": Part("uint8", width // 2), "_scale": Part("uint8", width // self.group)}

    def encode(self, vectors: torch.Tensor) -> dict[str, torch.Tensor]:
        _refuse_width(vectors.shape[-1], self.group)
        groups = vectors.float().unflatten(-1, (-1, self.group))
        _, exponent = torch.frexp(groups.abs().amax(-1))  # the largest is below 2 to this
        exponent = (exponent - 1 - _FP4_LARGEST_EXPONENT).clamp(-_E8M0_BIAS, _E8M0_BIAS)
        codes = _fp4_codes(torch.ldexp(groups, -exponent[..., None]).flatten(-2))
        return {"": _packed(codes), "_scale": (exponent + _E8M0_BIAS).to(torch.uint8)}

    def decode(self, kept: dict[str, torch.Tensor]) -> torch.Tensor:
        groups = _fp4_numbers(kept[""]).unflatten(-1, (-1, self.group))
        exponent = kept["_scale"].int() - _E8M0_BIAS
        return torch.ldexp(groups, exponent[..., None]).flatten(-2)


@dataclass(frozen=True)
class NVFloat4(Format):
    """NVFP4: FP4 with a scale in FP8 e4m3 for each 16, which a float32 of the vector scales."""

    group: int = 16

    def parts(self, width: int) -> dict[str, Part]:
        _refuse_width(width, self.group)
        return {
            "": Part("uint8", width // 2),
            "_scale": Part("float8_e4m3fn", width // self.group),
            "_scale_scale": Part("float32", 1),
        }

    def encode(self, vectors: torch.Tensor) -> dict[str, torch.Tensor]:
        _refuse_width(vectors.shape[-1], self.group)
        groups = vectors.float().unflatten(-1, (-1, self.group))
        largest = groups.abs().amax(-1)
        limit = torch.finfo(torch.float8_e4m3fn).max
        whole = (largest.amax(-1, keepdim=True) / (FP4[-1] * limit)).clamp_min(_SMALLEST_SCALE)
        scale = (largest / (FP4[-1] * whole)).clamp(max=limit).to(torch.float8_e4m3fn)
        step = (scale.float() * whole)[..., None]
        codes = _fp4_codes(torch.where(step > 0, groups / step, 0.0).flatten(-2))
        return {"": _packed(codes), "_scale": scale, "_scale_scale": whole}

    def decode(self, kept: dict[str, torch.Tensor]) -> torch.Tensor:
        groups = _fp4_numbers(kept[""]).unflatten(-1, (-1, self.group))
        return (groups * (kept["_scale"].float() * kept["_scale_scale"])[..., None]).flatten(-2)


def _refuse_width(width: int, group: int) -> None:
    if width % group:
        raise BadInput(
            f"vectors of {width} numbers are no whole groups of {group}, which share a scale; "
            "choose a layout whose scales are of a token and head, such as k16v8"
        )


def _scale(size: torch.Tensor, largest: float) -> torch.Tensor:
    """The bfloat16 by which `largest` becomes `size`, rounded up, never zero, and below what would
    take `largest` beyond float32."""
    scale = (size / largest).clamp_min(_SMALLEST_SCALE)
    up = ((scale.contiguous().view(torch.int32) + 0xFFFF) & ~0xFFFF).view(torch.float32)
    most = torch.finfo(torch.float32).max / largest * (1 - 2**-7)
    return torch.where(scale.isfinite(), up.clamp_max(most), scale).to(torch.bfloat16)


def _packed(codes: torch.Tensor) -> torch.Tensor:
    """Codes of 4 bits, two in a byte: the first in the low half."""
    low, high = codes.to(torch.uint8).unflatten(-1, (-1, 2)).unbind(-1)
    return low | (high << 4)


def _unpacked(packed: torch.Tensor) -> torch.Tensor:
    return torch.stack([packed & 15, packed >> 4], dim=-1).flatten(-2)


def _fp4_codes(numbers: torch.Tensor) -> torch.Tensor:
    """The nearest FP4 as codes, ties to even, beyond 6 the largest; NaN, which FP4 lacks, is 0."""
    size = numbers.abs()
    codes = torch.zeros_like(size, dtype=torch.uint8)
    for below, border in enumerate(_FP4_BORDERS):
        codes += (size >= border if below % 2 else size > border).to(torch.uint8)
    return codes | (numbers.signbit() & ~numbers.isnan()).to(torch.uint8) << 3


def _fp4_numbers(packed: torch.Tensor) -> torch.Tensor:
    table = torch.tensor([*FP4, *(-number for number in FP4)], device=packed.device)
    return table[_unpacked(packed).long()]


E4M3, E5M2 = Float8("float8_e4m3fn"), Float8("float8_e5m2")
E4M3_BLOCK_16 = BlockFloat8("float8_e4m3fn", 16)
INT8, INT4 = Integers(8), Integers(4)
MXFP4, NVFP4 = MXFloat4(), NVFloat4()
