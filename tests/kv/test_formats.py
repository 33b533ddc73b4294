"""Formats of few bits: against decoders in NumPy that share no code, and at their edges."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from assay.errors import BadInput
from assay.kv import formats

FORMATS = {
    "e4m3": formats.E4M3, "e5m2": formats.E5M2, "int8": formats.INT8, "int4": formats.INT4,
    "mxfp4": formats.MXFP4, "nvfp4": formats.NVFP4,
}  # fmt: skip


def vectors(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape)).float()


def float8(bits, *, mantissa, bias, has_infinity):
    """FP8 by its bits, one number at a time."""
    sign, rest = bits >> 7, bits & 127
    exponent, fraction = rest >> mantissa, rest & (2**mantissa - 1)
    top = 2 ** (7 - mantissa) - 1
    if has_infinity and exponent == top:
        number = float("inf") if fraction == 0 else float("nan")
    elif not has_infinity and rest == 127:
        number = float("nan")
    elif exponent == 0:
        number = fraction * 2.0 ** (1 - bias - mantissa)
    else:
        number = (1 + fraction / 2**mantissa) * 2.0 ** (exponent - bias)
    return -number if sign else number


def nibbles(row):
    return [half for byte in row for half in (int(byte) & 15, int(byte) >> 4)]


def float4(code):
    exponent, fraction = (code & 7) >> 1, code & 1
    size = fraction / 2 if exponent == 0 else (1 + fraction / 2) * 2.0 ** (exponent - 1)
    return -size if code & 8 else size


def raw(tensor):
    return tensor.contiguous().view(torch.uint8).numpy()


def decoded(name, kept):
    """Decode each row of what is kept, number by number."""
    rows = {suffix: tensor.flatten(0, -2) for suffix, tensor in kept.items()}
    bfloat16 = {
        suffix: tensor.view(torch.int16).numpy().astype(np.uint16).astype(np.uint32) << 16
        for suffix, tensor in rows.items()
        if tensor.dtype == torch.bfloat16
    }
    result = []
    for number in range(len(rows[""])):
        row = raw(rows[""])[number] if name != "int8" else rows[""][number].numpy()
        if name in ("e4m3", "e5m2"):
            kind = {"e4m3": (3, 7, False), "e5m2": (2, 15, True)}[name]
            form = dict(zip(("mantissa", "bias", "has_infinity"), kind, strict=True))
            scale = bfloat16["_scale"][number].view(np.float32)
            result.append([np.float32(float8(int(b), **form)) * scale[0] for b in row])
        elif name in ("int8", "int4"):
            scale = bfloat16["_scale"][number].view(np.float32)
            whole = row if name == "int8" else [(n ^ 8) - 8 for n in nibbles(row)]
            result.append([np.float32(w) * scale[i // 32] for i, w in enumerate(whole)])
        elif name == "mxfp4":
            scale = [2.0 ** (int(s) - 127) for s in raw(rows["_scale"])[number]]
            result.append([float4(c) * scale[i // 32] for i, c in enumerate(nibbles(row))])
        else:
            form = {"mantissa": 3, "bias": 7, "has_infinity": False}
            scale = [np.float32(float8(int(s), **form)) for s in raw(rows["_scale"])[number]]
            whole = rows["_scale_scale"][number].numpy()[0]
            codes = enumerate(nibbles(row))
            result.append([np.float32(float4(c)) * (scale[i // 16] * whole) for i, c in codes])
    return np.asarray(result, np.float32)


@pytest.mark.parametrize("name", FORMATS)
def test_a_decoder_that_shares_no_code_gives_the_same_bits(name):
    made = vectors(3, 2, 5, 64) * torch.logspace(-20, 6, 5)[:, None]
    kept = FORMATS[name].encode(made)
    ours = FORMATS[name].decode(kept).flatten(0, -2).numpy()
    assert np.array_equal(ours.view(np.uint32), decoded(name, kept).view(np.uint32))


@pytest.mark.parametrize(("name", "error"), [
    ("e4m3", 0.027), ("e5m2", 0.054), ("int8", 0.0059), ("int4", 0.103), ("mxfp4", 0.121),
    ("nvfp4", 0.100),
])  # fmt: skip
def test_errors_on_normal_numbers_are_those_of_the_format(name, error):
    made = vectors(64, 128)
    back = FORMATS[name].decode(FORMATS[name].encode(made))
    assert 0.9 * error < float((back - made).norm() / made.norm()) < error


def test_nothing_nearer_is_in_fp4():
    """Every number between the largest ones goes to the nearest, and from halfway to even codes."""
    made = torch.arange(-96, 97, dtype=torch.float32)[:192] / 16
    kept = formats.MXFP4.encode(torch.cat([made, torch.full((32,), 6.0)]).view(7, 32))
    made, back = made.numpy(), formats.MXFP4.decode(kept).flatten()[:192].numpy()
    grid = np.array([float4(code) for code in range(8)] + [float4(code) for code in range(9, 16)])
    scales = 2.0 ** (kept["_scale"].int().numpy().repeat(32)[:192] - 127)
    nearest = np.abs(made[:, None] / scales[:, None] - grid).min(axis=1)
    assert np.array_equal(np.abs(made - back) / scales, nearest)
    ties = formats.MXFP4.encode(torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0] + [4.0] * 25))
    assert formats.MXFP4.decode(ties)[:7].tolist() == [0.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0]


@pytest.mark.parametrize("name", FORMATS)
def test_zeros_and_the_largest_and_smallest_numbers_stay_finite(name):
    zeros = torch.zeros(2, 64)
    assert not FORMATS[name].decode(FORMATS[name].encode(zeros)).any()
    for size in (torch.finfo(torch.float32).max, torch.finfo(torch.bfloat16).max, 1e-38, 1e-42):
        back = FORMATS[name].decode(FORMATS[name].encode(vectors(4, 64).sign() * size))
        assert back.isfinite().all()
        if size > 1e-30:
            assert (back / size).abs().max() < 1.01 and (back / size).abs().min() > 0.7


@pytest.mark.parametrize("name", ["e4m3", "int8", "int4", "nvfp4"])
def test_the_largest_number_of_a_vector_is_not_clipped(name):
    """A scale that is rounded down takes up to 0.4 % off it."""
    made = vectors(200, 64)
    made[:, 0] = 10 + made[:, 1].abs()
    back = FORMATS[name].decode(FORMATS[name].encode(made))
    worst = ((back[:, 0] - made[:, 0]) / made[:, 0]).abs().max()
    assert worst < {"e4m3": 0.033, "int8": 0.008, "int4": 0.008, "nvfp4": 0.07}[name]


@pytest.mark.parametrize("name", FORMATS)
def test_a_token_is_kept_alike_whatever_follows(name):
    made = vectors(2, 3, 40, 64)
    whole = FORMATS[name].encode(made)
    made[:, :, 17:] *= 1e4
    for suffix, part in FORMATS[name].encode(made[:, :, :17]).items():
        assert torch.equal(part.view(torch.uint8), whole[suffix][:, :, :17].view(torch.uint8))


@pytest.mark.parametrize("name", ["int8", "int4", "mxfp4", "nvfp4"])
def test_vectors_that_are_no_whole_groups_are_refused(name):
    with pytest.raises(BadInput, match="vectors of 40 numbers are no whole groups of"):
        FORMATS[name].encode(vectors(2, 40))
    with pytest.raises(BadInput, match="such as k16v8"):
        FORMATS[name].parts(40)
