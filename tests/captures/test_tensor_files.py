"""Files of tensors: every dtype survives, and what is not such a file is refused, never run."""

import contextlib
import io
import json
import pickle
import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy_calls import equal

from assay.captures import formats, tensor_files
from assay.captures.tensor import STORED_AS, Tensor, tensor_of
from assay.errors import BadInput


def every_dtype() -> dict[str, Tensor]:
    """All bits that come up, among them NaN of several kinds, and awkward shapes."""
    draw = np.random.default_rng(0)
    tensors = {}
    for number, (dtype, holder) in enumerate(STORED_AS.items()):
        shape = [(3, 5), (1,), (), (2, 0, 3), (1, 2, 3, 4)][number % 5]
        size = int(np.prod(shape)) * np.dtype(holder).itemsize
        raw = draw.integers(0, 2 if holder == "bool" else 256, size, np.uint8)
        tensors[dtype] = Tensor(dtype, raw.view(holder).reshape(shape))
    return tensors | {"strided": tensor_of(np.arange(24.0).reshape(2, 3, 4).swapaxes(0, 2))}


@pytest.fixture(params=formats.FORMATS)
def path(request, tmp_path):
    return tmp_path / f"file.{request.param}"


def test_every_dtype_survives_bit_for_bit(path):
    tensors = every_dtype()
    checksum, size = tensor_files.write(path, tensors, note="a note")
    assert size == path.stat().st_size
    read, note = tensor_files.read_with_note(path, checksum=checksum, size=size)
    assert equal(read, tensors) and note == "a note"
    assert all(tensor.bits.flags.aligned for tensor in read.values())
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_jax_arrays_of_narrow_dtypes(path):
    dtypes = pytest.importorskip("ml_dtypes")
    array = np.arange(6).reshape(2, 3)
    tensors = {n: tensor_of(array.astype(getattr(dtypes, n))) for n in ("bfloat16", "float8_e5m2")}
    tensor_files.write(path, tensors)
    assert equal(tensor_files.read(path), tensors)
    assert np.array_equal(tensor_files.read(path)["bfloat16"].numbers(), array)


def test_the_safetensors_library_reads_what_is_written(tmp_path):
    library = pytest.importorskip("safetensors.numpy")
    tensors = {n: t for n, t in every_dtype().items() if "float8" not in n and n != "bfloat16"}
    tensor_files.write(tmp_path / "f.safetensors", tensors, note="x")
    read = library.load_file(tmp_path / "f.safetensors")
    assert read.keys() == tensors.keys()
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(read[name], tensor.bits)


def test_what_the_safetensors_library_writes_is_read(tmp_path):
    library = pytest.importorskip("safetensors.numpy")
    array = np.arange(6.0).reshape(2, 3)
    library.save_file({"one": array, "flag": np.array([True])}, tmp_path / "f.safetensors")
    read = tensor_files.read(tmp_path / "f.safetensors")
    np.testing.assert_array_equal(read["one"].bits, array)


def test_numpy_reads_the_npz_form(tmp_path):
    tensor_files.write(tmp_path / "f.npz", every_dtype())
    with np.load(tmp_path / "f.npz", allow_pickle=False) as file:
        assert json.loads(file["assay"].tobytes())["dtypes"]["bfloat16"] == "bfloat16"
        assert file["bfloat16"].dtype == np.uint16


def test_cut_short_anywhere_it_is_refused(path):
    checksum, size = tensor_files.write(path, every_dtype())
    whole = path.read_bytes()
    for cut in sorted({0, 1, 7, 8, 9, 100, size // 2, size - 1}):
        path.write_bytes(whole[:cut])
        with pytest.raises(BadInput, match="cut short"):
            tensor_files.read(path, checksum=checksum, size=size)
        with pytest.raises(BadInput):  # also where no manifest says how long it was
            tensor_files.read(path)


def test_a_flipped_bit_anywhere_is_found(path):
    checksum, size = tensor_files.write(path, every_dtype())
    whole = path.read_bytes()
    for place in range(0, size, max(1, size // 60)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.raises(BadInput, match="content was changed"):
            tensor_files.read(path, checksum=checksum, size=size)
        with contextlib.suppress(BadInput):  # without a checksum it may be read, as tensors alone
            tensor_files.read(path)


def header(entries, data=b"") -> bytes:
    text = json.dumps(entries).encode() if not isinstance(entries, bytes) else entries
    return struct.pack("<Q", len(text)) + text + data


def entry(shape, offsets, dtype="F32") -> dict:
    return {"a": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 8,
        header(b"not json"),
        header({"a": 1}),
        header(entry([2], [0, 4]), b"1234"),
        header(entry([1 << 60, 1 << 60], [0, 4]), b"1234"),
        header(entry([1], [0, 400]), b"1234"),
        header(entry([1], [0, 4]), b"12345678"),
    ],
)
def test_safetensors_that_are_none(tmp_path, content):
    path = tmp_path / "f.safetensors"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=r"f.safetensors cannot be read as safetensors: Error"):
        tensor_files.read(path)


def test_a_dtype_that_captures_do_not_have(tmp_path):
    path = tmp_path / "f.safetensors"
    path.write_bytes(header(entry([1], [0, 8], "C64"), b"12345678"))
    with pytest.raises(BadInput, match="a is C64, a dtype that captures do not have"):
        tensor_files.read(path)


class Bomb:
    """Unpickling it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def planted_npz(kind: str, mark: Path) -> bytes:
    """npz files that would run something, one way or another."""
    buffer = io.BytesIO()
    objects = np.array([Bomb(mark)], dtype=object)
    if kind == "object array":
        np.savez(buffer, q=objects)
        return buffer.getvalue()
    with zipfile.ZipFile(buffer, "w") as file:
        name = "q.npy" if kind != "no array" else "q"
        file.writestr(name, pickle.dumps(Bomb(mark)))
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["object array", "pickle as array", "no array", "pickle alone"])
def test_a_pickle_is_never_run(tmp_path, kind):
    mark, path = tmp_path / "was run", tmp_path / "f.npz"
    path.write_bytes(
        pickle.dumps(Bomb(mark)) if kind == "pickle alone" else planted_npz(kind, mark)
    )
    with pytest.raises(BadInput) as refusal:
        tensor_files.read(path)
    assert kind != "object array" or "allow_pickle=False" in str(refusal.value)
    assert not mark.exists()
    if kind == "object array":
        np.load(path, allow_pickle=True)["q"]
        assert mark.exists(), "the planted pickle does nothing, so nothing was shown"


def npy(shape, data=b"", dtype="<f4") -> bytes:
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npy("(1000000000000,)", b"1234"), "of float32 and holds less"),
        (npy("(4000000000,)", b"1234"), "of float32 and holds less"),
        (npy("(-1,)", b"1234"), r"says shape \(-1,\)"),
        (npy("(-1, -1)", b"1234"), "one unknown dimension"),
        (b"\x93NUMPY\x03\x00" + npy("(1,)", b"1234")[8:], r"version \(3, 0\)"),
        (npy("(1,)", b"12345678"), r"says shape \(1,\) of float32 and holds more"),
        (npy("__import__('os')", b"1234"), "malformed"),
        (npy("(1,", b"1234"), "EOF in multi-line statement"),
        (b"garbage", "EOF"),
        (npy("(1,)", b"1234", dtype="|O"), "allow_pickle=False"),
    ],
)
def test_npz_that_claims_what_it_has_not(tmp_path, content, message):
    path = tmp_path / "f.npz"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("q.npy", content)
    with pytest.raises(BadInput, match=f"f.npz cannot be read as npz: .*({message})"):
        tensor_files.read(path)


def test_an_npz_that_unpacks_beyond_this_machine_is_not_unpacked(tmp_path, monkeypatch):
    path = tmp_path / "f.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("q.npy", npy("(5000000,)", bytes(20_000_000)))
    assert path.stat().st_size < 30_000
    monkeypatch.setattr(formats, "_MEMORY_SHARE", 1e-6)
    with pytest.raises(BadInput, match="GB unpacked; this machine takes"):
        tensor_files.read(path)


def test_a_small_npz_that_becomes_gigabytes_is_not_unpacked(tmp_path, monkeypatch):
    """1.5 MB became 2.7 GB in memory before anything was refused; here 64 kB and 64 MB."""
    monkeypatch.setattr(formats, "_UNPACKED_BYTES", 32_000_000)
    path = tmp_path / "f.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("q.npy", npy("(16000000,)", bytes(64_000_000)))
    tracemalloc.start()
    with pytest.raises(BadInput, match=r"claims 0.1 GB unpacked, and has 0.1 MB: .*numpy.savez"):
        tensor_files.read(path)
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()
    np.savez(path, q=np.zeros(16_000_000, np.float32))
    with pytest.raises(BadInput, match="not written by assay"):  # it was read
        tensor_files.read(path)


def test_a_mask_that_shrinks_a_thousandfold_is_read(tmp_path):
    path = tmp_path / "f.npz"
    tensor_files.write(path, {"mask": tensor_of(np.tri(8192, dtype=bool))})
    assert path.stat().st_size * 100 < 8192**2
    assert tensor_files.read(path)["mask"].shape == (8192, 8192)


def test_a_plain_npz_is_named_foreign(tmp_path):
    path = tmp_path / "f.npz"
    np.savez(path, q=np.zeros(3), k=np.zeros(3))
    with pytest.raises(BadInput, match=r"not written by assay: it has q, k but.*--foreign"):
        tensor_files.read(path)


def test_a_mark_that_lies(tmp_path):
    for mark, message in (
        ({"schema": 1, "dtypes": {"q": "bfloat16"}, "note": ""}, "bfloat16 is held in uint16"),
        ({"schema": 1, "dtypes": {"k": "float32"}, "note": ""}, "holds other arrays"),
        ({"schema": 9, "dtypes": {}, "note": ""}, "schema 9"),
        ({"schema": 1}, "cannot be understood"),
        ([], "cannot be understood"),
    ):
        text = np.frombuffer(json.dumps(mark).encode(), np.uint8)
        np.savez(tmp_path / "f.npz", q=np.zeros(3, np.float32), assay=text)
        with pytest.raises(BadInput, match=message):
            tensor_files.read(tmp_path / "f.npz")


def test_a_name_that_is_taken_is_replaced_in_one_piece_and_trouble_leaves_nothing(tmp_path):
    path = tmp_path / "f.safetensors"
    tensor_files.write(path, {"a": tensor_of(np.zeros(3))})
    with pytest.raises(BadInput, match="cannot write"):
        tensor_files.write(tmp_path / "no" / "f.safetensors", {"a": tensor_of(np.ones(3))})
    path.unlink()
    path.mkdir()
    with pytest.raises(BadInput, match="cannot write"):
        tensor_files.write(path, {"a": tensor_of(np.ones(3))})
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(BadInput, match="is not a file"):
        tensor_files.read(tmp_path)
    with pytest.raises(BadInput, match="cannot read"):
        tensor_files.read(tmp_path / "absent.npz")
