"""Caches told by what changed: read back bit for bit, and small on disk."""

import json
import threading

import msgspec
import numpy as np
import pytest
from numpy_calls import captured_call, equal

from assay.captures.deltas import WHOLE_EVERY, changed_stretch, decode
from assay.captures.manifest import Delta
from assay.captures.recording import Recording
from assay.captures.recording.captured_call import LoadedTensors
from assay.captures.recording.options import CaptureOptions
from assay.captures.store import Store
from assay.captures.tensor import Tensor, tensor_of
from assay.errors import BadInput


def half(values):
    return Tensor("bfloat16", np.asarray(values, np.uint16))


def growing(steps, *, prompt=40):
    """q, k and v of one decoding, in bfloat16: k and v gain one position a step."""
    bits = np.random.default_rng(0).integers(0, 1 << 16, (2, 3, prompt + steps, 8), np.uint16)
    for step in range(steps):
        k = bits[:, :, : prompt + step]
        yield {"q": half(k[:, :, -1:]), "k": half(k), "v": half(k[:, :, ::-1][:, :, ::-1] ^ 1)}


def ring(steps, *, capacity=64):
    """A cache of fixed room, [B, S, K, H], into which each step writes one place."""
    draw = np.random.default_rng(1)
    cache = np.zeros((2, capacity, 1, 8), np.float32)
    for step in range(steps):
        cache = cache.copy()
        cache[:, 30 + step] = draw.standard_normal((2, 1, 8))
        yield {"cache.k": tensor_of(cache), "cache.v": tensor_of(cache + 1)}


def record_all(path, calls, *, phase="decode", **options):
    store = Store.create(path)
    with Recording(store, options=CaptureOptions(**options)) as recording:
        for step, tensors in enumerate(calls):
            assert recording.put(captured_call(recording, tensors, step=step, phase=phase))
    assert not recording.report().dropped
    return store, recording.report()


@pytest.mark.parametrize("calls", [growing, ring])
def test_every_record_reads_back_bit_for_bit(tmp_path, calls):
    steps = 3 if calls is ring else WHOLE_EVERY + 8
    store, report = record_all(tmp_path / "s", calls(steps))
    _, whole = record_all(tmp_path / "whole", calls(steps), deltas=False)
    records = store.manifest().records
    for record, tensors in zip(records, calls(steps), strict=True):
        assert equal(store.read(record), tensors)
    for record, tensors in reversed(list(zip(records, calls(steps), strict=True))):
        assert equal(Store.open(store.path).read(record), tensors)
    assert report.bytes < whole.bytes * (0.6 if calls is ring else 0.35)


def test_a_whole_one_comes_at_least_every_32_records(tmp_path):
    store, _ = record_all(tmp_path / "s", growing(70))
    is_delta = [record.tensors["k"].delta is not None for record in store.manifest().records]
    assert [step for step, delta in enumerate(is_delta) if not delta] == [0, 32, 64]


def test_only_the_changed_stretch_is_in_the_file(tmp_path):
    store, _ = record_all(tmp_path / "s", ring(3))
    last = store.manifest().records[-1]
    assert last.tensors["cache.k"].delta == Delta(
        base=store.manifest().records[1].name, axis=1, start=32
    )
    assert last.bytes < 2 * 64 * 8 * 4 / 2


def test_what_is_read_may_be_changed_without_harm_to_later_reads(tmp_path):
    store, _ = record_all(tmp_path / "s", growing(5))
    for record, tensors in zip(store.manifest().records, growing(5), strict=True):
        read = store.read(record)
        assert equal(read, tensors)
        read["k"].bits[...] = 0


def test_memory_that_the_model_uses_again_is_no_base(tmp_path):
    """A capture may load into one buffer over and over: what is compared must be a copy."""
    store = Store.create(tmp_path / "s")
    buffer = np.zeros((1, 1, 16, 4), np.float32)
    free = threading.Semaphore(1)
    wanted = []
    with Recording(store) as recording:
        for step in range(6):
            now = np.random.default_rng(step // 3).standard_normal(buffer.shape, dtype=np.float32)
            now[:, :, step] = step
            wanted.append({"k": tensor_of(now)})

            def load(now=now):
                assert free.acquire(timeout=600)
                buffer[...] = now
                return LoadedTensors(tensors={"k": Tensor("float32", buffer)})

            memory = {"load": load, "release": free.release}
            assert recording.put(
                captured_call(recording, wanted[-1], step=step, phase="decode", **memory)
            )
    for record, tensors in zip(store.manifest().records, wanted, strict=True):
        assert equal(store.read(record), tensors)


def test_sites_do_not_mix(tmp_path):
    store = Store.create(tmp_path / "s")
    calls = list(growing(6))
    other = [{n: half(t.bits ^ 7) for n, t in tensors.items()} for tensors in calls]
    with Recording(store) as recording:
        for step in range(6):
            for layer, tensors in enumerate((calls[step], other[step])):
                call = captured_call(
                    recording, tensors, step=step, layer=layer, site=f"{layer}", phase="decode"
                )
                assert recording.put(call)
    for record in store.manifest().records:
        wanted = (calls, other)[record.key.layer][record.key.step]
        assert equal(store.read(record), wanted)
        assert (record.tensors["k"].delta is None) == (record.key.step == 0)


def test_training_is_stored_whole(tmp_path):
    store, _ = record_all(tmp_path / "s", growing(3), phase="train")
    assert all(r.tensors["k"].delta is None for r in store.manifest().records)


@pytest.mark.parametrize(
    ("change", "stretch"),
    [
        (lambda k: k, (16, 16)),
        (lambda k: np.concatenate([k, k[:, :, :1]], 2), (16, 17)),
        (lambda k: k[:, :, :8], None),  # shorter
        (lambda k: k + 1, None),  # all of it
        (lambda k: k.astype(np.float64), None),
        (lambda k: k[:1], None),
        (lambda k: np.where(np.arange(16)[:, None] == 5, np.float32(9), k), (5, 6)),
        (lambda k: np.where(np.arange(16)[:, None] == 0, np.float32(9), k), (0, 1)),
    ],
)
def test_where_two_tensors_differ(change, stretch):
    k = np.random.default_rng(0).standard_normal((2, 3, 16, 4), dtype=np.float32)
    assert changed_stretch(tensor_of(k), tensor_of(change(k)), 2) == stretch


def test_bits_count_not_values():
    """-0 equals 0 and NaN does not equal itself, as numbers; a capture keeps the bits."""
    zeros = np.zeros((1, 1, 8, 2), np.float32)
    minus = zeros.copy()
    minus[0, 0, 3, 1] = -0.0
    assert changed_stretch(tensor_of(zeros), tensor_of(minus), 2) == (3, 4)
    nans = np.full((1, 1, 8, 2), np.nan, np.float32)
    assert changed_stretch(tensor_of(nans), tensor_of(nans.copy()), 2) == (8, 8)


@pytest.mark.parametrize("delta", [{"axis": 7}, {"axis": -1}, {"start": 17}, {"start": -1}])
def test_a_change_that_does_not_fit_is_refused(delta):
    k = tensor_of(np.zeros((2, 3, 16, 4), np.float32))
    misfit = Delta(**({"base": "b", "axis": 2, "start": 3} | delta))
    with pytest.raises(BadInput, match="does not fit"):
        decode(k, tensor_of(np.zeros((2, 3, 1, 4), np.float32)), misfit)


@pytest.mark.parametrize(
    ("base", "message"), [("itself", "lead nowhere"), ("nobody", "is not listed")]
)
def test_a_manifest_whose_deltas_lead_nowhere_is_refused(tmp_path, base, message):
    store, _ = record_all(tmp_path / "s", growing(2))
    path = store.path / "manifest.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    records = [line for line in lines if line["kind"] == "record"]
    name = msgspec.convert(records[1]["key"], type(store.manifest().records[0].key)).name
    for entry in records[1]["tensors"].values():
        if "delta" in entry:
            entry["delta"]["base"] = name if base == "itself" else "nobody"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(BadInput, match=message):
        store.read(store.manifest().records[1])
