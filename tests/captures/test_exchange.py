"""Records as single files: out of a store and into another, bit for bit; bad files are refused."""

import json

import msgspec
import numpy as np
import pytest
from numpy_calls import captured_call, equal

from assay.captures import exchange, foreign, tensor_files
from assay.captures.exchange import import_files
from assay.captures.foreign import ForeignSettings
from assay.captures.manifest import CaptureRecord
from assay.captures.recording import Recording
from assay.captures.store import Store
from assay.captures.tensor import Tensor, tensor_of
from assay.errors import BadInput

DTYPES = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float16", "float32")


def tensors(dtype, *, seed=0, keys=12):
    """A call of random bits, and its mask."""
    holder = np.uint16 if dtype == "bfloat16" else np.uint8
    draw = np.random.default_rng(seed)
    shapes = {"q": (2, 4, 3, 8), "k": (2, 2, keys, 8), "v": (2, 2, keys, 8), "out": (2, 4, 3, 8)}
    if dtype.startswith(("b", "float8")):
        top = np.iinfo(holder).max
        made = {
            n: Tensor(dtype, draw.integers(0, top, s, holder, endpoint=True))
            for n, s in shapes.items()
        }
    else:
        made = {n: tensor_of(draw.standard_normal(s).astype(dtype)) for n, s in shapes.items()}
    return made | {"mask": tensor_of(np.tri(3, keys, keys - 3, dtype=bool))}


@pytest.fixture
def store(tmp_path):
    """One record of each dtype, and three steps of decoding that are told by what changed."""
    made = Store.create(tmp_path / "store")
    with Recording(made, run="there", rank=3, model={"name": "toy"}) as recording:
        for step, dtype in enumerate(DTYPES):
            recording.put(captured_call(recording, tensors(dtype), step=step, phase="train"))
        for step in range(5, 8):
            grown = tensors("bfloat16", keys=12)
            grown = {
                n: Tensor(t.dtype, t.bits[:, :, : step + 4]) if n in "kv" else t
                for n, t in grown.items()
                if n != "mask"
            }
            recording.put(
                captured_call(recording, grown, step=step, phase="decode", cut={"rows": "0:2"})
            )
    return made


def test_a_round_trip_keeps_bits_keys_scalars_and_phase(tmp_path, store):
    records = store.manifest().records
    assert records[-1].tensors["k"].delta, "the last is a delta"
    files = exchange.export(store, records, tmp_path / "out")
    assert len(files) == 8 and all(f.name.startswith("attention_inputs_2") for f in files)
    note = msgspec.json.decode(tensor_files.read_with_note(files[0])[1], type=CaptureRecord)
    assert note.key == records[0].key and note.file is None
    other = Store.create(tmp_path / "other")
    report = import_files(other, reversed(files))
    assert len(report.added) == 8 and not report.refused and not report.present
    imported = other.manifest().records
    assert [r.key for r in imported] == [r.key for r in records]
    for before, after in zip(records, imported, strict=True):
        assert equal(other.read(after), store.read(before))
        for name in ("scalars", "phase", "cut", "framework", "implementation", "time", "mode"):
            assert getattr(after, name) == getattr(before, name)
    assert other.manifest().runs == store.manifest().runs
    assert other.manifest().ends == store.manifest().ends


def test_the_same_files_again_add_nothing(tmp_path, store):
    files = exchange.export(store, store.manifest().records, tmp_path / "out")
    assert len(import_files(store, files).present) == 8
    other = Store.create(tmp_path / "other")
    assert len(import_files(other, files[:3]).added) == 3
    again = import_files(other, files)
    assert len(again.present) == 3 and len(again.added) == 5
    assert len(other.manifest().records) == 8 and len(other.manifest().runs) == 1


def test_a_key_that_is_there_with_other_tensors_is_refused(tmp_path, store):
    record = store.manifest().records[4]
    (file,) = exchange.export(store, [record], tmp_path / "out")
    held, note = tensor_files.read_with_note(file)
    held["q"].bits[0, 0, 0, 0] += 1
    tensor_files.write(file, held, note=note)
    report = import_files(store, [file])
    assert "has another record" in report.refused[file]
    assert len(store.manifest().records) == 8


def noted(file, **changes):
    """The file with other words in its note."""
    held, note = tensor_files.read_with_note(file)
    fields = json.loads(note)
    for path, value in changes.items():
        inner = fields
        *way, last = path.split("__")
        for step in way:
            inner = inner[step]
        inner[last] = value
    tensor_files.write(file, held, note=json.dumps(fields))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"key__run": "../../x"}, "a run is named by"),
        ({"key__run": "other"}, "another run than it says"),
        ({"key__rank": -1}, "a rank is 0 or more"),
        ({"key__step": -1}, "not what a file of tensors may be"),
        ({"mode": "stats"}, "not what a file of tensors may be"),
        ({"tensors__q__shape": [1, 2]}, "other tensors than its record says"),
        ({"tensors__q__dtype": "float64"}, "other tensors than its record says"),
        ({"tensors": {}}, "other tensors than its record says"),
        ({"kind": "run"}, "does not say which call"),
        ({"phase": "sleep"}, "does not say which call"),
    ],
)
def test_notes_that_lie_are_refused(tmp_path, store, changes, message):
    (file,) = exchange.export(store, store.manifest().records[4:5], tmp_path / "out")
    noted(file, **changes)
    with pytest.raises(BadInput, match=message):
        exchange.read_exported(file)


def test_a_file_without_a_note_is_refused(tmp_path):
    tensor_files.write(tmp_path / "f.npz", tensors("float32"))
    with pytest.raises(BadInput, match="does not say which call"):
        exchange.read_exported(tmp_path / "f.npz")


def test_a_record_of_a_run_that_nobody_tells_of(tmp_path, store):
    (file,) = exchange.export(store, store.manifest().records[:1], tmp_path / "out")
    noted(file, of=None, ended=None)
    other = Store.create(tmp_path / "other")
    assert import_files(other, [file]).added
    assert other.manifest().runs[0].run == "there"


def plain(path, **arrays):
    draw = np.random.default_rng(0)
    defaults = {
        "q": draw.standard_normal((2, 4, 5, 8), dtype=np.float32),
        "k": draw.standard_normal((2, 2, 5, 8), dtype=np.float32),
        "v": draw.standard_normal((2, 2, 5, 8), dtype=np.float32),
    }
    np.savez(path, **{n: a for n, a in (defaults | arrays).items() if a is not None})
    return defaults | arrays


def test_foreign_calls(tmp_path):
    path = tmp_path / "theirs.npz"
    out = np.zeros((2, 4, 5, 8), np.float32)
    mask = np.tri(5, dtype=bool)
    arrays = plain(path, out=out, mask=mask, scale=np.float32(0.5), causal=False, loss=np.ones(3))
    call = foreign.read_foreign(path, run="r", step=2, settings=ForeignSettings())
    assert call.ignored == ("loss",)
    assert call.record.scalars == {"scale": 0.5, "causal": False}
    assert call.record.key.site == "theirs" and call.record.key.step == 2
    for name in ("q", "k", "v", "out", "mask"):
        np.testing.assert_array_equal(call.tensors[name].bits, arrays[name])
    plain(path)
    call = foreign.read_foreign(path, run="r", step=0, settings=ForeignSettings(causal=True))
    assert call.record.scalars == {"scale": 8**-0.5, "causal": True, "alignment": "bottom-right"}


def test_foreign_axes_and_bits(tmp_path):
    path = tmp_path / "f.npz"
    arrays = {n: a.swapaxes(1, 2) for n, a in plain(path).items()}
    np.savez(path, **arrays)
    call = foreign.read_foreign(path, run="r", step=0, settings=ForeignSettings(order="BSHD"))
    assert call.tensors["q"].shape == (2, 4, 5, 8) and call.record.tensors["q"].order == "BSHD"
    bits = {n: a.astype(np.uint16).swapaxes(1, 2) for n, a in arrays.items()}
    np.savez(path, **bits)
    with pytest.raises(BadInput, match=r"q is uint16.*--dtype bfloat16"):
        foreign.read_foreign(path, run="r", step=0, settings=ForeignSettings())
    call = foreign.read_foreign(path, run="r", step=0, settings=ForeignSettings(dtype="bfloat16"))
    assert call.tensors["k"].dtype == "bfloat16"
    dtypes = pytest.importorskip("ml_dtypes")
    lost = {n: a.view(dtypes.bfloat16) for n, a in bits.items()}
    np.savez(path, **lost)  # NumPy writes it as |V2
    again = foreign.read_foreign(path, run="r", step=0, settings=ForeignSettings(dtype="bfloat16"))
    assert equal(again.tensors, call.tensors)


@pytest.mark.parametrize(
    ("arrays", "settings", "message"),
    [
        ({"v": None}, {}, "has no v; it has q, k"),
        ({"q": np.zeros((2, 4, 5), np.float32)}, {}, "wanted four axes, BHSD"),
        ({"q": np.zeros((2, 3, 5, 8), np.float32)}, {}, "no call of attention"),
        ({"k": np.zeros((2, 2, 6, 8), np.float32)}, {}, "no call of attention"),
        ({"q": np.zeros((2, 4, 0, 8), np.float32)}, {}, "no call of attention"),
        ({"q": np.zeros((2, 4, 5, 8), np.int32)}, {}, "q is int32"),
        ({"q": np.zeros((2, 4, 5, 8), ">f4")}, {}, "q is >f4"),
        ({"q": np.zeros((2, 4, 5, 8), np.float16)}, {}, "different dtypes"),
        ({"out": np.zeros((2, 4, 4, 8), np.float32)}, {}, "out has shape"),
        ({"mask": np.zeros((3, 5), bool)}, {}, "does not broadcast"),
        ({"scale": np.zeros(2)}, {}, "wanted one number"),
        ({"scale": np.float32("inf")}, {}, "not a finite number"),
        ({"q": np.zeros((2, 4, 3, 8), np.float32), "causal": True}, {}, "--alignment"),
        ({}, {"order": "SBHD"}, "BHSD, BSHD"),
        ({}, {"alignment": "left"}, "bottom-right, top-left"),
        ({}, {"dtype": "int4"}, "dtype 'int4'"),
    ],
)
def test_foreign_files_that_are_no_calls(tmp_path, arrays, settings, message):
    plain(tmp_path / "f.npz", **arrays)
    with pytest.raises(BadInput, match=message):
        foreign.read_foreign(
            tmp_path / "f.npz", run="r", step=0, settings=ForeignSettings(**settings)
        )
