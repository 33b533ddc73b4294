"""Bounds and counts of a recording: the model goes on, each call is counted once, by its reason."""

import random
import sys
import threading
import time
from itertools import product

import numpy as np
import pytest
from numpy_calls import call, captured_call, check_counts, put_all

from assay.captures.manifest import Key
from assay.captures.recording import Recording
from assay.captures.recording.captured_call import LoadedTensors
from assay.captures.recording.counts import CallCounts
from assay.captures.recording.options import CaptureOptions
from assay.captures.store import Store
from assay.captures.tensor import tensor_of


@pytest.fixture
def store(tmp_path):
    return Store.create(tmp_path / "store")


def stuck_load(tensors):
    """A load that ends when the event is set, as from a disk or device that takes for ever."""
    event = threading.Event()

    def load():
        assert event.wait(timeout=600)
        return LoadedTensors(tensors=tensors)

    return load, event


@pytest.mark.parametrize("bound", ["records", "bytes"])
def test_a_stuck_disk_does_not_hold_the_model_up(store, bound, capsys):
    tensors = call()
    each = sum(tensor.nbytes for tensor in tensors.values())
    room = {"queue_records": 3} if bound == "records" else {"queue_bytes": 3 * each + 1}
    load, event = stuck_load(tensors)
    with Recording(store, options=CaptureOptions(**room)) as recording:
        for step in range(40):
            recording.put(captured_call(recording, tensors, step=step, load=load))
        assert recording.report().dropped == {"queue full": 37}
        event.set()
    report = check_counts(recording, store, 40)
    assert report.records == 3 and report.dropped == {"queue full": 37}
    assert "dropped 37 (queue full)" in capsys.readouterr().err


def test_a_put_waits_as_long_as_it_may_and_no_longer(store):
    tensors = call()
    load, event = stuck_load(tensors)
    with Recording(store, options=CaptureOptions(queue_records=1, wait_s=0.3)) as recording:
        recording.put(captured_call(recording, tensors, step=0, load=load))
        start = time.perf_counter()
        assert not recording.put(captured_call(recording, tensors, step=1))
        assert time.perf_counter() - start >= 0.3
        event.set()
    assert check_counts(recording, store, 2).dropped == {"queue full": 1}


def test_a_put_that_waits_goes_in_when_there_is_room(store):
    tensors = call()
    load, event = stuck_load(tensors)
    with Recording(store, options=CaptureOptions(queue_records=1, wait_s=600)) as recording:
        recording.put(captured_call(recording, tensors, step=0, load=load))
        threading.Timer(0.2, event.set).start()
        assert recording.put(captured_call(recording, tensors, step=1))
    assert not check_counts(recording, store, 2).dropped


def test_a_record_larger_than_the_queue_is_dropped_and_others_are_not(store):
    with Recording(store, options=CaptureOptions(queue_bytes=10_000)) as recording:
        assert put_all(recording, 2, nbytes=10_001) == [False, False]
        assert recording.put(captured_call(recording, call(), step=9))
    assert check_counts(recording, store, 3).dropped == {"queue full": 2}


@pytest.mark.parametrize("wanted", [1, 7])
def test_the_budget_of_records_is_exact(store, wanted):
    with Recording(store, options=CaptureOptions(max_records=wanted)) as recording:
        assert sum(put_all(recording, 12)) == wanted
    report = check_counts(recording, store, 12)
    assert report.records == wanted and report.dropped == {"record budget": 12 - wanted}


def test_the_budget_of_bytes_is_exact(tmp_path):
    free = Store.create(tmp_path / "free")
    with Recording(free, run="run") as recording:
        put_all(recording, 12)
    sizes = [record.bytes for record in free.manifest().records]
    for kept, spare in ((0, -1), (4, 0), (4, sizes[4] - 1), (12, 0)):
        store = Store.create(tmp_path / f"{kept}.{spare}")
        budget = sum(sizes[:kept]) + spare if kept else sizes[0] - 1
        with Recording(store, run="run", options=CaptureOptions(max_bytes=budget)) as recording:
            put_all(recording, 12)
        report = check_counts(recording, store, 12)
        on_disk = sum(file.stat().st_size for file in store.path.glob("[rs]*/**/*.safetensors"))
        assert report.records == kept and report.bytes == on_disk <= budget
        assert report.dropped == ({"byte budget": 12 - kept} if kept < 12 else {})


def test_masks_count_once_against_the_budget(tmp_path):
    mask = {"mask": tensor_of(np.ones((64, 64), bool))}
    store = Store.create(tmp_path / "s")
    with Recording(store, options=CaptureOptions(max_bytes=64 * 64 + 100)) as recording:
        for step in range(50):
            recording.put(captured_call(recording, mask, step=step))
    report = check_counts(recording, store, 50)
    assert report.records == 50
    assert report.bytes == sum(f.stat().st_size for f in store.path.glob("shared/*"))


def test_turned_away_counts_like_put(store):
    tensors = call()
    with Recording(store, options=CaptureOptions(max_records=2)) as recording:
        put_all(recording, 2)
        again, new = (
            recording.key(step=n, layer=0, site="model.layers.0.self_attn") for n in (1, 2)
        )
        assert recording.turned_away(again, 10) and recording.turned_away(new, 10)
        assert not recording.put(captured_call(recording, tensors, step=2)), "it was counted before"
    report = check_counts(recording, store, 5)
    assert report.duplicates == 2 and report.dropped == {"record budget": 1}


def test_turned_away_leaves_what_it_lets_pass_uncounted(store):
    with Recording(store) as recording:
        captured = captured_call(recording, call())
        assert not recording.turned_away(captured.key, captured.nbytes)
        assert recording.put(captured)
    assert check_counts(recording, store, 1).records == 1


def test_turned_away_where_the_queue_is_full(store):
    tensors = call()
    with Recording(store, options=CaptureOptions(queue_records=1)) as recording:
        load, event = stuck_load(tensors)
        recording.put(captured_call(recording, tensors, load=load))
        assert recording.turned_away(recording.key(step=1, layer=0, site="x"), 10)
        event.set()
    assert check_counts(recording, store, 2).dropped == {"queue full": 1}


def keys(steps):
    return [
        Key(run="r", step=step, layer=layer, site=site, call=call)
        for step, layer, site, call in product(steps, (-1, 0, 7), ("a", "b"), (0, 1))
    ]


def test_each_key_is_accepted_once_in_any_order():
    offered = keys([0, 1, 1023, 1024, 1025, 10**12, *range(2000, 2100)]) * 2
    random.Random(0).shuffle(offered)
    counts = CallCounts(max_records=None)
    accepted = [counts.accept(key) for key in offered]
    assert accepted.count(True) == len(offered) // 2
    assert counts.duplicates == len(offered) // 2
    assert all(counts.refuse(key) for key in set(offered)) and not counts.dropped()


def test_a_long_run_takes_little_memory():
    """A million steps of twelve layers would fill gigabytes as tuples in a set."""
    counts = CallCounts(max_records=None)
    for step in range(20_000):
        counts.accept(Key(run="r", step=step, layer=0, site="a"))
    (pages,) = counts._seen._pages.values()
    held = sys.getsizeof(pages) + sum(map(sys.getsizeof, pages.values()))
    assert held < 20_000
