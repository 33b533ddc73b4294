"""Serialized chunks: bit for bit what was written, or a refusal that says what is wrong."""

import struct
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from serialized_chunks import LATENTS, SPEC, chunk_of, encoded, raw, tensors_of

from assay import plugins
from assay.errors import BadInput
from assay.kv import contract, header, wire
from assay.kv.chunk import identity
from assay.kv.header import Corrupt, Mismatch
from assay.records.schema import ELEMENT_BYTES

LAYOUTS = list(plugins.listing("layouts"))


def same(tensors, others):
    assert tensors.keys() == others.keys()
    return all(
        tensors[name].dtype == others[name].dtype and raw(tensors[name]) == raw(others[name])
        for name in tensors
    )


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_comes_back_bit_for_bit(name):
    chunk = chunk_of(name, tokens=5)
    tensors = tensors_of(chunk)
    buffer = encoded(chunk, tensors)
    assert len(buffer) == header.encoded_bytes(chunk)
    assert same(wire.decode_from(bytes(buffer), expected=chunk), tensors)


@pytest.mark.parametrize(
    "name", [n for n in LAYOUTS if n not in LATENTS and not contract.load(n).frozen]
)
def test_attention_reads_what_the_layout_decodes_of_its_own_tensors(name):
    chunk = chunk_of(name, tokens=3)
    values = {n: torch.randn(1, 2, chunk.tokens, 64).to(torch.bfloat16) for n in ("k", "v")}
    kept = chunk.layout.encode(values, ())
    back = wire.decode_from(encoded(chunk, kept), expected=chunk)
    ours, direct = chunk.layout.decode(back, ()), chunk.layout.decode(kept, ())
    assert same(ours, direct)


@given(
    sequences=st.integers(1, 4), tokens=st.integers(1, 256), heads=st.integers(1, 16),
    groups=st.integers(1, 4), name=st.sampled_from(LAYOUTS), dtype=st.sampled_from(
        ["float32", "float16", "bfloat16"]),
)  # fmt: skip
def test_sizes_are_exact_and_bytes_come_back(sequences, tokens, heads, groups, name, dtype):
    spec = replace(SPEC, dtype=dtype, key_heads=heads, value_heads=heads, head_dim=32 * groups)
    chunk = chunk_of(name, tokens=tokens, sequences=sequences, spec=spec)
    tensors = tensors_of(chunk)
    nbytes = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    kept = sequences * chunk.tokens
    assert chunk.payload_bytes == nbytes == kept * chunk.layout.bytes_per_token(spec)
    buffer = encoded(chunk, tensors)
    most = header.header_bytes(chunk) + nbytes + 8 + len(tensors) * (header.ALIGNMENT - 1)
    assert header.header_bytes(chunk) + nbytes + 8 <= len(buffer) <= most
    assert same(wire.decode_from(buffer, expected=chunk), tensors)


def test_the_payload_is_keys_values_scales_little_endian():
    chunk = chunk_of("k16v8", tokens=2)
    tensors = tensors_of(chunk)
    buffer = encoded(chunk, tensors)
    placed = header.places(chunk)
    assert [place.stream.name for place in placed] == ["k", "v", "v_scale"]
    assert [place.stream.name for place in header.places(chunk_of("k8v8", tokens=2))] == [
        "k", "v", "k_scale", "v_scale",
    ]  # fmt: skip
    for place in placed:
        assert place.offset % header.ALIGNMENT == 0
        assert buffer[place.offset : place.end] == raw(tensors[place.stream.name])
    first = struct.unpack_from("<H", buffer, placed[0].offset)[0]
    assert first == int(tensors["k"].view(torch.int16).flatten()[0]) & 0xFFFF


def test_the_header_says_in_fixed_places_what_a_chunk_is():
    """The bytes by hand, so that a change of the format cannot go unnoticed."""
    chunk = replace(chunk_of("k16v8", tokens=7), first_token=40, layer=3)
    buffer = encoded(chunk, tensors_of(chunk))
    fixed = struct.unpack_from("<8sIIQQIIQQIHH32s64s96s96s", buffer)
    assert fixed[:3] == (b"assayKV\0", 1, 3)
    assert fixed[3:12] == (64 + 288 + 3 * 80, len(buffer), 3, 1, 40, 7, 1, 0, 0)
    texts = [text.rstrip(b"\0").decode() for text in fixed[12:]]
    assert texts == ["k16v8", "token and head", chunk.model, chunk.rope]
    values = struct.unpack_from("<32sIIQQQQQ", buffer, 352 + 80)
    assert values == (b"v".ljust(32, b"\0"), 1, 4, 2, 64, 1, 640 + 2 * 7 * 64 * 2, 2 * 7 * 64)
    assert set(header.DTYPES) == set(ELEMENT_BYTES)


@pytest.mark.parametrize("dtype", list(ELEMENT_BYTES))
def test_every_bit_pattern_of_every_dtype_survives(dtype):
    """NaNs with payloads too: nothing is converted."""
    width = 64
    layout = contract.Layout(
        name="own", exact=True, scales=None, encode=dict, decode=dict,
        streams=lambda spec: (contract.Stream(name="row", width=width, dtype=dtype),),
    )  # fmt: skip
    chunk = replace(chunk_of("dense", tokens=128), layout=layout)
    count = 128 * width * ELEMENT_BYTES[dtype]
    content = np.random.default_rng(0).integers(0, 256, count, np.uint8)
    content[:256] = np.arange(256)
    tensor = torch.from_numpy(content).view(getattr(torch, dtype)).view(1, 128, width)
    back = wire.decode_from(encoded(chunk, {"row": tensor}), expected=chunk)
    assert raw(back["row"]) == content.tobytes() and back["row"].dtype == tensor.dtype


def test_values_alone_say_that_the_keys_are_elsewhere():
    whole = chunk_of("k16v8", tokens=16)
    keys, values = whole.split()
    tensors = tensors_of(whole)
    parts = {n: t for n, t in tensors.items() if n != "k"}
    buffer = encoded(values, parts)
    assert same(wire.decode_from(buffer, expected=values), parts)
    assert Fraction(values.payload_bytes, whole.payload_bytes) == Fraction(66, 66 + 128)
    with pytest.raises(Mismatch, match="stream k of this chunk has kept 0; wanted 1"):
        wire.decode_from(buffer, expected=whole)
    assert keys.payload_bytes + values.payload_bytes == whole.payload_bytes


def test_keys_have_their_scales_with_them():
    keys, values = chunk_of("k8v8", tokens=1).split()
    assert [s.name for s in keys.kept] == ["k", "k_scale"]
    assert [s.name for s in values.kept] == ["v", "v_scale"]


def test_one_latent_cannot_be_split():
    with pytest.raises(BadInput, match="no values apart from keys"):
        chunk_of("mla_latent", tokens=1).split()


OTHER = [
    ({"layer": 4}, "layer 3; wanted 4"),
    ({"tokens": 32}, "tokens 16; wanted 32"),
    ({"first_token": 16}, "first token 0; wanted 16"),
    ({"sequences": 2}, "sequences 1; wanted 2"),
    ({"model": "another@main"}, "model 'tiny@1'; wanted 'another@main'"),
    ({"rope": identity({"theta": 500000.0})}, "rope 'blake2b:.*; wanted 'blake2b:"),
    ({"spec": replace(SPEC, dtype="float16")}, "stream k of this chunk has dtype bfloat16; wanted "
     "float16"),
    ({"spec": replace(SPEC, dtype="float32")}, "dtype bfloat16; wanted float32"),
    ({"spec": replace(SPEC, head_dim=32)}, "stream k of this chunk has width 64; wanted 32"),
    ({"spec": replace(SPEC, key_heads=1)}, "stream k of this chunk has heads 2; wanted 1"),
    ({"layout": contract.load("k16v8_e5m2")}, "layout 'k16v8'; wanted 'k16v8_e5m2'"),
    ({"layout": contract.load("dense")}, "streams 3; wanted 2"),
    ({"layout": replace(contract.load("k16v8"), version=2)}, "layout version 1; wanted 2"),
    ({"layout": replace(contract.load("k16v8"), exact=True)}, "exact 0; wanted 1"),
    ({"layout": replace(contract.load("k16v8"), key_bias=True)}, "key bias 0; wanted 1"),
    ({"layout": replace(contract.load("k16v8_block"), name="k16v8", scales="token and head")},
     "stream v_scale of this chunk has block 1; wanted 16"),
    ({"layout": replace(contract.load("k16v8"), scales="tensor")}, "scales 'token and head'; "
     "wanted 'tensor'"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), OTHER)
def test_what_is_not_expected_is_refused_by_its_name(change, message):
    chunk = replace(chunk_of("k16v8", tokens=16), layer=3)
    buffer = encoded(chunk, tensors_of(chunk))
    with pytest.raises(Mismatch, match=message):
        wire.decode_from(buffer, expected=replace(chunk, **change))


def test_codes_of_one_size_are_never_taken_for_each_other():
    """e4m3 read as e5m2 gives numbers, all wrong: the layout is compared, and so is the dtype."""
    chunk = chunk_of("k16v8", tokens=4)
    other = replace(chunk, layout=replace(contract.load("k16v8_e5m2"), name="k16v8"))
    with pytest.raises(Mismatch, match=r"stream v .* dtype float8_e4m3fn; wanted float8_e5m2"):
        wire.decode_from(encoded(chunk, tensors_of(chunk)), expected=other)


def test_what_is_cut_altered_or_foreign_is_refused():
    chunk = chunk_of("k16v8", tokens=4)
    buffer = encoded(chunk, tensors_of(chunk))
    for size in (0, 1, 100, 359, 360, len(buffer) - 8, len(buffer) - 1):
        with pytest.raises(Corrupt, match="cut short"):
            wire.decode_from(buffer[:size], expected=chunk)
    with pytest.raises(Corrupt, match="followed by other bytes"):
        wire.decode_from(buffer + b"\0", expected=chunk)
    for place in range(24, len(buffer), 37):
        altered = bytearray(buffer)
        altered[place] ^= 16
        with pytest.raises(Corrupt):
            wire.decode_from(altered, expected=chunk)
    with pytest.raises(Corrupt, match="this is no chunk"):
        wire.decode_from(b"\x80\x04." + buffer[3:], expected=chunk)
    with pytest.raises(Corrupt, match="format version 2; only 1"):
        wire.decode_from(buffer[:8] + b"\2" + buffer[9:], expected=chunk)


def test_given_tensors_are_filled_and_only_by_a_whole_chunk():
    chunk = chunk_of("k16v8", tokens=4)
    tensors = tensors_of(chunk)
    buffer = encoded(chunk, tensors)
    room = {"k": torch.zeros(1, 2, 9, 64, dtype=torch.bfloat16)}  # of a cache, so not in one piece
    into = {"k": room["k"].narrow(-2, 3, 4)}
    into |= {name: torch.zeros_like(tensors[name]) for name in ("v", "v_scale")}
    altered = bytearray(buffer)
    altered[-20] ^= 1
    with pytest.raises(Corrupt):
        wire.decode_from(altered, expected=chunk, into=into)
    assert not any(tensor.float().any() for tensor in into.values())
    back = wire.decode_from(buffer, expected=chunk, into=into)
    assert all(back[name] is into[name] for name in into) and same(into, tensors)
    assert not room["k"][:, :, :3].any() and not room["k"][:, :, 7:].any()


def test_tensors_and_buffers_that_do_not_fit_are_refused():
    chunk = chunk_of("k16v8", tokens=4)
    tensors = tensors_of(chunk)
    size = header.encoded_bytes(chunk)
    with pytest.raises(BadInput, match=f"the buffer has {size - 1} bytes; wanted {size}"):
        wire.encode_into(bytearray(size - 1), chunk=chunk, tensors=tensors)
    with pytest.raises(BadInput, match="bytes is read-only"):
        wire.encode_into(bytes(size), chunk=chunk, tensors=tensors)
    with pytest.raises(BadInput, match="no buffer in one piece"):
        wire.encode_into(np.zeros((size, 2), np.uint8)[:, 0], chunk=chunk, tensors=tensors)
    with pytest.raises(BadInput, match="str is no buffer"):
        wire.decode_from("assayKV", expected=chunk)
    with pytest.raises(BadInput, match="no multiple of 8"):
        sliced = memoryview(bytearray(size + 1))[1:]
        wire.encode_into(sliced, chunk=chunk, tensors=tensors)
    with pytest.raises(BadInput, match="given are tensors k, v; wanted k, v, v_scale"):
        wire.encode_into(bytearray(size), chunk=chunk, tensors={n: tensors[n] for n in "kv"})
    wrong = tensors | {"v": tensors["v"].view(torch.uint8)}
    with pytest.raises(BadInput, match=r"v is uint8 .*; wanted float8_e4m3fn"):
        wire.encode_into(bytearray(size), chunk=chunk, tensors=wrong)
    with pytest.raises(BadInput, match="v is a ndarray"):
        wire.encode_into(bytearray(size), chunk=chunk, tensors=tensors | {"v": np.zeros(1)})
    repeated = tensors | {"k": torch.zeros(1, dtype=torch.bfloat16).expand(1, 2, 4, 64)}
    with pytest.raises(BadInput, match="strides"):
        wire.decode_from(encoded(chunk, tensors), expected=chunk, into=repeated)


@pytest.mark.parametrize(("change", "message"), [
    ({"tokens": 0}, "tokens is 0"), ({"tokens": 2**63}, "tokens is 9223372036854775808"),
    ({"tokens": 2**47, "sequences": 2**31}, "bytes of all streams"), ({"layer": -1}, "layer is -1"),
    ({"layer": True}, "layer is True"), ({"first_token": 2**64}, "first_token is"),
    ({"model": ""}, "model is ''"), ({"model": "a\0b"}, "without NUL"),
    ({"model": "x" * 97}, "97 bytes long.*at most 96: give a digest"),
    ({"rope": "\ud800"}, "UTF-8"), ({"left_out": frozenset({"z"})}, "left out are z"),
    ({"left_out": frozenset({"k", "v", "v_scale"})}, "keeps nothing"),
    ({"spec": replace(SPEC, head_dim=0)}, "width of k is 0"),
])  # fmt: skip
def test_a_chunk_that_cannot_be_is_refused(change, message):
    with pytest.raises(BadInput, match=message):
        replace(chunk_of("k16v8", tokens=4), **change)


def test_blocks_of_tokens_are_kept_whole():
    chunk = chunk_of("k16v8_block", tokens=2)
    assert chunk.tokens == 32 and chunk.shape(chunk.streams[2]) == (1, 2, 2, 1)
    for change in ({"tokens": 31}, {"first_token": 8}):
        with pytest.raises(BadInput, match="no whole blocks of 16, which share a row of v_scale"):
            replace(chunk, **change)


def test_identities_are_of_what_a_configuration_says_not_of_its_order():
    assert identity({"theta": 1e4, "dims": 64}) == identity({"dims": 64, "theta": 1e4})
    assert identity({"theta": 1e4}) != identity({"theta": 1e5})
    with pytest.raises(BadInput, match="plain data"):
        identity({"theta": torch.zeros(1)})
