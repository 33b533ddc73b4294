"""Mutated chunks: refused in words, or exactly what their bytes say; never anything else.

Half of the mutants carry a checksum made anew, so that the checks behind it are reached.
"""

from collections import Counter

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from serialized_chunks import chunk_of, encoded, raw, tensors_of

from assay.errors import BadInput
from assay.kv import header, wire
from assay.records.checksum import checksum_of

AROUND = 4096  # bytes before and behind, which nothing may read
ABSURD = (0, 1, 7, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1)
CHUNKS = [
    chunk_of("k16v8", tokens=3), chunk_of("dense", tokens=1), chunk_of("nvfp4", tokens=2),
    chunk_of("k16v8_block", tokens=1),
    chunk_of("mla_latent", tokens=5), chunk_of("k16v8", tokens=3).split()[1],
]  # fmt: skip


def flip(buffer, draw, chunk):
    for place in draw.integers(0, len(buffer), draw.integers(1, 9)):
        buffer[place] ^= 1 << int(draw.integers(8))


def flip_in_payload(buffer, draw, chunk):
    place = draw.choice([p for p in header.places(chunk) if p.length])
    buffer[draw.integers(place.offset, place.end)] ^= 1 << int(draw.integers(8))


def cut(buffer, draw, chunk):
    del buffer[draw.integers(len(buffer)) :]


def extend(buffer, draw, chunk):
    buffer += draw.bytes(draw.integers(1, 200))


def swap(buffer, draw, chunk):
    """Two fields of the header change places."""
    size = int(draw.choice([4, 8, 32, 80]))
    left, right = draw.integers(0, header.header_bytes(chunk) - size, 2) // 8 * 8
    first, second = bytes(buffer[left : left + size]), bytes(buffer[right : right + size])
    buffer[left : left + size], buffer[right : right + size] = second, first


def rewrite(buffer, draw, chunk):
    """A number of the header becomes another, such as none that could be meant."""
    size = int(draw.choice([4, 8]))
    place = draw.integers(0, header.header_bytes(chunk)) // 4 * 4
    number = int(draw.choice(np.array(ABSURD, object))) % 2 ** (8 * size)
    buffer[place : place + size] = number.to_bytes(size, "little")


def rewrite_text(buffer, draw, chunk):
    place = draw.integers(64, header.header_bytes(chunk) - 16)
    buffer[place : place + 16] = draw.choice([b"../../etc/passwd", b"\xff" * 16, b"\0" * 16])


def splice(buffer, draw, chunk):
    """The header of one chunk before the streams of another."""
    other = encoded(peer := CHUNKS[draw.integers(len(CHUNKS))], tensors_of(peer))
    buffer[: header.header_bytes(chunk)] = other[: header.header_bytes(peer)]


MUTATIONS = (flip, flip_in_payload, cut, extend, swap, rewrite, rewrite_text, splice)


def sealed(buffer, draw):
    """With a checksum that is right, and in half of the cases with a size that is right too."""
    if len(buffer) >= 40:
        if draw.integers(2):
            buffer[24:32] = len(buffer).to_bytes(8, "little")
        buffer[-8:] = bytes.fromhex(checksum_of([memoryview(buffer)[:-8]]).partition(":")[2])


def outcome(buffer, chunk, poison):
    """The refusal, or the bytes of what was read, with `poison` on both sides of the buffer."""
    whole = poison * AROUND + bytes(buffer) + poison * AROUND
    try:
        read = wire.decode_from(memoryview(whole)[AROUND:-AROUND], expected=chunk)
    except BadInput as error:
        return type(error).__name__, str(error)
    return "read", read


def check_mutants(count, seed):
    """Check so many mutants; return how each kind of mutation ended."""
    draw = np.random.default_rng(seed)
    sources = [(chunk, encoded(chunk, tensors_of(chunk))) for chunk in CHUNKS]
    ended = Counter()
    for _ in range(count):
        chunk, source = sources[draw.integers(len(sources))]
        mutate, buffer = MUTATIONS[draw.integers(len(MUTATIONS))], bytearray(source)
        mutate(buffer, draw, chunk)
        if draw.integers(2):
            sealed(buffer, draw)
        kind, result = outcome(buffer, chunk, b"\xa5")
        again, other = outcome(buffer, chunk, b"\x3c")
        assert kind == again
        if kind == "read":
            # What was accepted is, byte for byte, what a writer makes of it.
            assert encoded(chunk, result) == buffer
            assert {n: raw(t) for n, t in result.items()} == {n: raw(t) for n, t in other.items()}
        else:
            assert result == other
        ended[mutate.__name__, kind] += 1
    return ended


def check_that_all_was_tried(ended):
    for mutate in MUTATIONS:
        assert ended[mutate.__name__, "Corrupt"]
    for mutate in (extend, swap, rewrite, rewrite_text, splice, flip):
        assert ended[mutate.__name__, "Mismatch"]
    assert ended["flip_in_payload", "read"]


def test_mutants_are_refused_or_read_as_they_are():
    check_that_all_was_tried(check_mutants(3_000, seed=0))


@pytest.mark.slow
def test_many_mutants_are_refused_or_read_as_they_are():
    check_that_all_was_tried(check_mutants(30_000, seed=1))


def test_every_field_of_the_header_is_compared():
    """Each byte up to the first stream in turn, behind a checksum that is right."""
    chunk = CHUNKS[0]
    source = encoded(chunk, tensors_of(chunk))
    for place in range(header.places(chunk)[0].offset):
        buffer = bytearray(source)
        buffer[place] ^= 0x55
        buffer[-8:] = bytes.fromhex(checksum_of([memoryview(buffer)[:-8]]).partition(":")[2])
        with pytest.raises(BadInput):
            wire.decode_from(buffer, expected=chunk)
