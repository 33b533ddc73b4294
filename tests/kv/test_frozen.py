"""FP8 with scales known before: the plain formulation bit for bit, and nothing beyond it NaN."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from serialized_chunks import chunk_of, frozen_layout

from assay.errors import BadInput, CannotRunHere
from assay.kv import header, wire
from assay.kv.frozen import FrozenFloat8
from assay.kv.header import Mismatch

KINDS = ("float8_e4m3fn", "float8_e5m2")
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def vectors(*shape, dtype=torch.float32, seed=0):
    drawn = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return torch.from_numpy(drawn).to(dtype)


def plain(made, scale, kind):
    largest = torch.finfo(getattr(torch, kind)).max
    return (made.float() * (1 / scale)).clamp(-largest, largest).to(getattr(torch, kind))


def bits(tensor):
    return tensor.contiguous().view(torch.uint8).tolist()


def scales(heads):
    return torch.logspace(-3, 1, heads).view(heads, 1, 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 3, 1, 64), (2, 3, 63, 40), (3, 1111, 128)])
def test_pieces_give_what_the_plain_formulation_gives(shape, dtype, kind):
    made = vectors(*shape, dtype=dtype) * 100
    for scale in (scales(3), torch.tensor(0.037)):
        kept = FrozenFloat8(kind, scale).encode(made)[""]
        assert bits(kept) == bits(plain(made, scale, kind))


@pytest.mark.slow  # a compilation takes seconds
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_fused_pass_gives_the_same_bits(dtype, kind):
    made = vectors(2, 3, 63, 40, dtype=dtype) * 100
    made[0, 0, 0, :4] = torch.tensor([torch.inf, -torch.inf, torch.nan, 3e4])
    kept = FrozenFloat8(kind, scales(3), fused=True).encode(made)[""]
    expected = plain(made, scales(3), kind)
    assert kept[0, 0, 0, 2].float().isnan() and expected[0, 0, 0, 2].float().isnan()
    kept[0, 0, 0, 2] = expected[0, 0, 0, 2] = 0  # the sign of NaN is the compiler's choice
    assert bits(kept) == bits(expected)


def test_every_bfloat16_is_encoded_as_by_the_plain_formulation():
    made = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    made = made.view(1, 512, 128)
    for scale in (torch.tensor(1.0), torch.tensor(0.3)):
        kept = FrozenFloat8("float8_e4m3fn", scale).encode(made)[""]
        assert bits(kept) == bits(plain(made, scale, "float8_e4m3fn"))


@pytest.mark.parametrize("kind", KINDS)
def test_beyond_the_scale_is_the_largest_number_and_nan_stays(kind):
    """torch's own cast gives NaN, or infinity, where a scale that was calibrated does not reach."""
    made = torch.tensor([[1e30, -1e30, torch.inf, torch.nan, 0.0, -0.0, 1.0, 2.0]])
    own = FrozenFloat8(kind, torch.tensor(0.5))
    back = own.decode(own.encode(made))[0]
    largest = torch.finfo(getattr(torch, kind)).max * 0.5
    assert back[:3].tolist() == [largest, -largest, largest] and back[3].isnan()
    assert back[4:].tolist() == [0.0, 0.0, 1.0, 2.0] and back[5].signbit()


def test_a_token_is_kept_alike_whatever_follows():
    own, made = FrozenFloat8("float8_e4m3fn", scales(3)), vectors(3, 40, 64)
    before = own.encode(made)[""][:, :17]
    made[:, 17:] *= 1e4
    assert bits(own.encode(made)[""][:, :17]) == bits(before)


def test_a_scale_does_not_move_with_the_tensor_that_it_was_given_as():
    given = scales(3)
    own = FrozenFloat8("float8_e4m3fn", given)
    before = bits(own.encode(vectors(3, 2, 64))[""])
    given *= 2
    assert bits(own.encode(vectors(3, 2, 64))[""]) == before
    assert own.description != FrozenFloat8("float8_e4m3fn", given).description


def test_memory_of_a_cache_is_encoded_into_and_the_rest_untouched():
    own, made = FrozenFloat8("float8_e4m3fn", scales(3)), vectors(2, 3, 9, 64)
    room = torch.zeros(2, 3, 20, 64, dtype=torch.float8_e4m3fn)
    own.encode_into(room.narrow(-2, 4, 9), made)
    assert bits(room[:, :, 4:13]) == bits(own.encode(made)[""])
    assert not room[:, :, :4].float().any() and not room[:, :, 13:].float().any()


def test_values_go_straight_into_a_chunk_that_names_their_scales():
    own, others = (FrozenFloat8("float8_e4m3fn", factor * scales(2)) for factor in (1, 2))
    chunk = replace(chunk_of("k16v8", tokens=5), layout=frozen_layout(own))
    keys, values = (vectors(1, 2, 5, 64, dtype=torch.bfloat16, seed=seed) for seed in (1, 2))
    buffer = bytearray(header.encoded_bytes(chunk))
    views = wire.stream_views(buffer, chunk=chunk)
    views["k"].copy_(keys)
    own.encode_into(views["v"], values)
    wire.seal(buffer, chunk=chunk)
    back = wire.decode_from(buffer, expected=chunk)
    assert bits(back["k"]) == bits(keys) and bits(back["v"]) == bits(own.encode(values)[""])
    with pytest.raises(Mismatch, match=r"scales 'frozen .*'; wanted 'frozen "):
        wire.decode_from(buffer, expected=replace(chunk, layout=frozen_layout(others)))


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf"), 1e-42])
def test_what_is_no_scale_is_refused(scale):
    with pytest.raises(BadInput, match="wanted numbers above 0"):
        FrozenFloat8("float8_e4m3fn", torch.tensor(scale))


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(BadInput, match=r"scales are \[3\]; wanted \[\] or \[heads, 1, 1\]"):
        FrozenFloat8("float8_e4m3fn", torch.ones(3))
    own = FrozenFloat8("float8_e4m3fn", scales(3))
    with pytest.raises(BadInput, match=r"\[2, 5, 64\] for scales of 3 heads"):
        own.encode(vectors(2, 5, 64))
    with pytest.raises(BadInput, match=r"\[5, 64\] for scales of 1 heads"):
        FrozenFloat8("float8_e4m3fn", scales(1)).encode(vectors(5, 64))
    with pytest.raises(BadInput, match=r"room for torch.uint8 .*; wanted float8_e4m3fn"):
        own.encode_into(torch.zeros(3, 5, 64, dtype=torch.uint8), vectors(3, 5, 64))


def test_without_a_compiler_a_fused_encoding_says_so(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(CannotRunHere, match="needs a C\\+\\+ compiler"):
        FrozenFloat8("float8_e4m3fn", torch.tensor(1.0), fused=True).encode(vectors(3, 7, 31))
