"""Shards: windows across their borders, and files that are not what was written."""

import hashlib

import numpy as np
import pytest
from written_shards import write

from assay.errors import BadInput
from assay.train.shards import ShardWriter, Tokens, dtype_for, require_whole

SEQUENCE = np.random.default_rng(0).integers(0, 60_000, 107)


def written(folder, dtype="uint16", shard_tokens=10):
    parts = np.split(SEQUENCE, [3, 3, 30, 31, 90])
    return write(folder, "train", parts, dtype, shard_tokens=shard_tokens)


def opened(folder, entries, dtype="uint16"):
    return Tokens([folder / entry.file for entry in entries], dtype=dtype)


@pytest.mark.parametrize("dtype, bytes_each", [("uint16", 2), ("uint32", 4)])
def test_a_shard_is_raw_little_endian(tmp_path, dtype, bytes_each):
    entries = written(tmp_path, dtype)
    assert [entry.file for entry in entries[:2]] == ["train-00000.bin", "train-00001.bin"]
    assert [entry.tokens for entry in entries] == [10] * 10 + [7]
    content = b"".join((tmp_path / entry.file).read_bytes() for entry in entries)
    assert content == SEQUENCE.astype(f"<u{bytes_each}").tobytes()
    first = (tmp_path / "train-00000.bin").read_bytes()
    assert entries[0].sha256 == hashlib.sha256(first).hexdigest()


@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
@pytest.mark.parametrize("shard_tokens", [1, 7, 10, 107, 1000])
def test_windows_go_across_shards(tmp_path, shard_tokens, dtype):
    tokens = opened(tmp_path, written(tmp_path, dtype, shard_tokens), dtype)
    assert len(tokens) == len(SEQUENCE)
    for start, count in [(0, 107), (0, 0), (107, 0), (9, 1), (9, 2), (10, 10), (5, 63), (106, 1)]:
        window = tokens.window(start, count)
        assert window.dtype == np.int64
        np.testing.assert_array_equal(window, SEQUENCE[start : start + count])


@pytest.mark.parametrize("start, count", [(0, 108), (107, 1), (-1, 2), (3, -1)])
def test_a_window_beyond_the_split_is_refused(tmp_path, start, count):
    with pytest.raises(ValueError, match="were asked of a split of 107"):
        opened(tmp_path, written(tmp_path)).window(start, count)


def test_a_window_is_a_copy(tmp_path):
    tokens = opened(tmp_path, written(tmp_path))
    tokens.window(0, 5)[:] = 0
    np.testing.assert_array_equal(tokens.window(0, 5), SEQUENCE[:5])


def test_no_tokens_are_no_shards(tmp_path):
    entries = write(tmp_path, "train", [], "uint16")
    assert entries == [] and len(opened(tmp_path, entries)) == 0


@pytest.mark.parametrize(
    "vocabulary, dtype", [(257, "uint16"), (65_536, "uint16"), (65_537, "uint32")]
)
def test_the_dtype_holds_the_vocabulary(vocabulary, dtype, tmp_path):
    assert dtype_for(vocabulary) == dtype
    entries = write(tmp_path, "train", [np.array([vocabulary - 1])], dtype)
    assert opened(tmp_path, entries, dtype).window(0, 1) == vocabulary - 1


@pytest.mark.parametrize("token", [-1, 65_536])
def test_a_token_that_does_not_fit_is_refused(tmp_path, token):
    with pytest.raises(ValueError, match="do not fit into uint16, which ends at 65535"):
        write(tmp_path, "train", [np.array([3, token])], "uint16")


def test_a_shard_of_the_same_name_is_not_written_over(tmp_path):
    written(tmp_path)
    with pytest.raises(BadInput, match="a file of that name is in the way"):
        written(tmp_path)


def test_a_writer_counts_and_writes_across_shards(tmp_path):
    writer = ShardWriter(tmp_path, "validation", dtype="uint16", shard_tokens=4)
    writer.append(np.arange(9))
    assert writer.tokens == 9
    assert [entry.tokens for entry in writer.close()] == [4, 4, 1]


def spoiled(path, how):
    content = path.read_bytes()
    if how == "missing":
        path.unlink()
    if how == "cut":
        path.write_bytes(content[:-1])
    if how == "longer":
        path.write_bytes(content + b"\0\0")
    if how == "changed":
        path.write_bytes(bytes([content[0] ^ 1]) + content[1:])


@pytest.mark.parametrize(
    "how, words",
    [
        ("missing", "is missing, wanted 20 bytes"),
        ("cut", "has 19 bytes, wanted 20"),
        ("longer", "has 22 bytes, wanted 20"),
        ("changed", "was changed after it was written: its sha256 is"),
    ],
)
def test_a_shard_that_is_not_as_written_is_refused_in_words(tmp_path, how, words):
    entry = written(tmp_path)[3]
    require_whole(tmp_path, entry, dtype="uint16")
    spoiled(tmp_path / entry.file, how)
    with pytest.raises(BadInput, match=rf"train-00003.bin {words}.*remove the folder .* prepare"):
        require_whole(tmp_path, entry, dtype="uint16")
