"""Numbers of 8 and 4 bits out of 16-bit words, as exact numbers of 16 bits.

A cache tile of few bits is read as 16-bit words, which the tensor cores' loads can transpose, and
taken apart in registers: word j of a row holds the numbers PACK j, PACK j + 1, ... of the row, the
first in its low bits. Part i of a tile [N, words] is a tile of its own, of the numbers i, PACK + i,
2 PACK + i and so on. Scales are left to the caller: every number here is exact in float16.

On NVIDIA hardware two words are taken apart at once by a few instructions; elsewhere, in Triton's
interpreter too, by shifts (PLAIN).
"""

# Triton infers the types of a kernel's arguments.
# ruff: noqa: ANN001

import triton
import triton.language as tl

# Words hold so many numbers of a format.
PACK = {"whole": 1, "e4m3": 2, "e5m2": 2, "int8": 2, "int4": 4}

# Bytes 0 and 2 of two words are their low numbers, 1 and 3 the high ones.
_FLOAT8 = tl.constexpr("""
{
    .reg .b32 pair;
    .reg .b16 bytes, none;
    prmt.b32 pair, $2, 0, 0x0020;
    mov.b32 {bytes, none}, pair;
    cvt.rn.f16x2.FORMATx2 $0, bytes;
    prmt.b32 pair, $2, 0, 0x0031;
    mov.b32 {bytes, none}, pair;
    cvt.rn.f16x2.FORMATx2 $1, bytes;
}""")
_E4M3 = tl.constexpr(_FLOAT8.value.replace("FORMAT", "e4m3"))
_E5M2 = tl.constexpr(_FLOAT8.value.replace("FORMAT", "e5m2"))
# A byte behind 0x64 is the float16 of 1024 + byte; with its highest bit turned over, 1152 too much.
_INT8 = tl.constexpr("""
{
    .reg .b32 biased, wide, excess;
    mov.b32 excess, 0x64806480;
    xor.b32 biased, $2, 0x80808080;
    prmt.b32 wide, biased, 0x64646464, 0x4240;
    sub.f16x2 $0, wide, excess;
    prmt.b32 wide, biased, 0x64646464, 0x4341;
    sub.f16x2 $1, wide, excess;
}""")
# The same for 4 bits: (word & mask) ^ 0x6408 is 1032 too much; four bits higher it is 16 times as
# much above 1024, which one multiplication and addition take back.
_INT4 = tl.constexpr("""
{
    .reg .b32 upper, wide, excess, sixteenth, less;
    mov.b32 excess, 0x64086408;
    mov.b32 sixteenth, 0x2c002c00;
    mov.b32 less, 0xd480d480;
    shr.u32 upper, $4, 8;
    lop3.b32 wide, $4, 0x000f000f, 0x64086408, 0x6a;
    sub.f16x2 $0, wide, excess;
    lop3.b32 wide, $4, 0x00f000f0, 0x64806480, 0x6a;
    fma.rn.f16x2 $1, wide, sixteenth, less;
    lop3.b32 wide, upper, 0x000f000f, 0x64086408, 0x6a;
    sub.f16x2 $2, wide, excess;
    lop3.b32 wide, upper, 0x00f000f0, 0x64806480, 0x6a;
    fma.rn.f16x2 $3, wide, sixteenth, less;
}""")


@triton.jit
def unpack_pairs(words, FORMAT: tl.constexpr, PLAIN: tl.constexpr, NUMBERS: tl.constexpr):
    """Low and high numbers of 16-bit words, two tiles of the same shape, in NUMBERS."""
    if PLAIN:
        if FORMAT == "int8":
            low = ((words << 8) >> 8).to(NUMBERS)
            high = (words >> 8).to(NUMBERS)
        elif FORMAT == "e4m3":
            low = (words & 255).to(tl.uint8).to(tl.float8e4nv, bitcast=True).to(NUMBERS)
            high = ((words >> 8) & 255).to(tl.uint8).to(tl.float8e4nv, bitcast=True).to(NUMBERS)
        else:
            low = (words & 255).to(tl.uint8).to(tl.float8e5, bitcast=True).to(NUMBERS)
            high = ((words >> 8) & 255).to(tl.uint8).to(tl.float8e5, bitcast=True).to(NUMBERS)
    else:
        if FORMAT == "int8":
            assembly: tl.constexpr = _INT8
        elif FORMAT == "e4m3":
            assembly: tl.constexpr = _E4M3
        else:
            assembly: tl.constexpr = _E5M2
        low, high = tl.inline_asm_elementwise(
            assembly, "=r,=r,r", [words], dtype=(tl.float16, tl.float16), is_pure=True, pack=2
        )
    return low, high


@triton.jit
def unpack_fours(words, PLAIN: tl.constexpr, NUMBERS: tl.constexpr):
    """The four whole numbers of 4 bits of 16-bit words, four tiles of the same shape."""
    if PLAIN:
        first = ((words << 12) >> 12).to(NUMBERS)
        second = ((words << 8) >> 12).to(NUMBERS)
        third = ((words << 4) >> 12).to(NUMBERS)
        fourth = (words >> 12).to(NUMBERS)
    else:
        first, second, third, fourth = tl.inline_asm_elementwise(
            _INT4,
            "=r,=r,=r,=r,r",
            [words],
            dtype=(tl.float16, tl.float16, tl.float16, tl.float16),
            is_pure=True,
            pack=2,
        )
    return first, second, third, fourth
