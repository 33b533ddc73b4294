"""Checksum of files: equal to its definition, and different after any accident."""

import hashlib
from itertools import pairwise

import numpy as np
import pytest

from assay.records.checksum import checksum_of

DATA = np.random.default_rng(0).integers(0, 256, 100_003, np.uint8).tobytes()


def by_definition(content: bytes) -> str:
    """As docs/captures.md says it, word by word."""
    padded = content + b"\0" * (-len(content) % 8192)
    words = np.frombuffer(padded, "<u8").reshape(-1, 1024)
    rows = [sum(map(int, row)) % 2**64 for row in words]
    columns = [sum(map(int, column)) % 2**64 for column in words.T]
    sums = b"".join(n.to_bytes(8, "little") for n in [len(content), *rows, *columns])
    return "sums64:" + hashlib.blake2b(sums, digest_size=8).hexdigest()


@pytest.mark.parametrize("size", [0, 1, 7, 8191, 8192, 8193, 100_003])
def test_it_is_what_its_definition_says(size):
    assert checksum_of([memoryview(DATA[:size])]) == by_definition(DATA[:size])


@pytest.mark.parametrize("cuts", [[1], [8192], [5, 20_000, 20_001], [16_384, 90_000]])
def test_pieces_make_no_difference(cuts):
    places = [0, *cuts, len(DATA)]
    parts = [memoryview(DATA[a:b]) for a, b in pairwise(places)]
    assert checksum_of(parts) == checksum_of([memoryview(DATA)])


def changed():
    """Contents that accidents make of a file."""
    flipped = bytearray(DATA)
    flipped[50_000] ^= 0x80
    yield bytes(flipped)
    flipped[50_008] ^= 0x80  # a second one in the same bit of the next word
    yield bytes(flipped)
    yield DATA[8:16] + DATA[:8] + DATA[16:]  # words that changed places
    yield DATA[8192:16384] + DATA[:8192] + DATA[16384:]  # blocks that changed places
    yield DATA[:8192] + DATA[8192:16384][::-1] + DATA[16384:]
    yield DATA[:4096] + bytes(4096) + DATA[8192:]  # a page of zeros
    yield DATA[:-1]
    yield DATA + b"\0"
    yield DATA[:8192] + DATA


def test_what_happens_to_files_is_found():
    checksums = {checksum_of([memoryview(content)]) for content in (DATA, *changed())}
    assert len(checksums) == 10
