"""The writer: what is put is read back, and every call that was offered is accounted for."""

import threading
import time

import numpy as np
import pytest
from numpy_calls import call, captured_call, check_counts, equal, put_all

from assay.captures.manifest import Statistics, TensorEntry
from assay.captures.recording import Recording
from assay.captures.recording.captured_call import LoadedTensors
from assay.captures.recording.options import CaptureOptions
from assay.captures.store import Store
from assay.captures.tensor import tensor_of
from assay.errors import BadInput


@pytest.fixture
def store(tmp_path):
    return Store.create(tmp_path / "store")


def test_what_is_put_is_read_back(store):
    tensors = call() | {"mask": tensor_of(np.tri(4, dtype=bool))}
    with Recording(store, model={"name": "toy"}, config={"layers": 3}) as recording:
        recording.put(captured_call(recording, tensors, step=3, layer=2, phase="prefill"))
        recording.put(captured_call(recording, tensors, step=4, layer=2, phase="prefill"))
    check_counts(recording, store, 2)
    first, second = store.manifest().records
    assert equal(store.read(first), tensors) and equal(store.read(second), tensors)
    assert (first.key.step, first.key.layer, first.phase) == (3, 2, "prefill")
    assert first.scalars == {"causal": True, "scale": 0.5}
    assert first.tensors["mask"].file == second.tensors["mask"].file
    assert len(list(store.path.glob("shared/*"))) == 1
    (run,) = store.manifest().runs
    assert run.model == {"name": "toy"} and run.config == {"layers": 3} and run.host
    assert {"python", "numpy"} <= run.versions.keys()


def test_nothing_is_written_and_no_thread_runs_before_the_first_put(store):
    before = threading.active_count()
    with Recording(store) as recording:
        assert recording.wants(step=0, layer=0, site="x")
        assert threading.active_count() == before
    assert threading.active_count() == before
    assert recording.report().sentence() == "captured 0 records, 0.0 MB; dropped none"


def test_a_second_put_of_one_key_is_a_duplicate(store):
    with Recording(store) as recording:
        assert put_all(recording, 5) == [True] * 5
        assert put_all(recording, 5) == [False] * 5
        assert put_all(recording, 5, call=1) == [True] * 5
    report = check_counts(recording, store, 15)
    assert report.duplicates == 5 and not report.dropped


def test_an_error_of_the_model_passes_on_and_loses_nothing(store):
    with pytest.raises(ZeroDivisionError), Recording(store) as recording:
        put_all(recording, 4)
        raise ZeroDivisionError
    assert check_counts(recording, store, 4).records == 4


def test_what_cannot_be_read_is_counted_and_the_next_is_written(store, capsys):
    def fails():
        raise RuntimeError("device lost")

    tensors = call()
    with Recording(store) as recording:
        recording.put(captured_call(recording, tensors, step=0, load=fails))
        wrong = {n: TensorEntry(dtype="float32", shape=(9,)) for n in "qkv"}
        recording.put(captured_call(recording, tensors, step=1, shapes=wrong))
        recording.put(captured_call(recording, tensors, step=2))
    report = check_counts(recording, store, 3)
    assert report.records == 1
    assert report.dropped["could not be read: device lost"] == 1
    assert any("announced as float32 (9,)" in reason for reason in report.dropped)
    assert "device lost" in capsys.readouterr().err


def test_errors_that_differ_each_time_do_not_fill_memory(store, capsys):
    def fails(n):
        def load():
            raise RuntimeError(f"trouble {n}")

        return load

    with Recording(store) as recording:
        for step in range(100):
            recording.put(captured_call(recording, call(), step=step, load=fails(step)))
    assert len(check_counts(recording, store, 100).dropped) <= 17
    capsys.readouterr()


def test_every_call_is_released_once(store, capsys):
    released = []

    def fails():
        raise RuntimeError("no")

    with Recording(store, options=CaptureOptions(max_records=3)) as recording:
        for step, load in enumerate([None, fails, None, None, None, None]):
            changes = {"load": load} if load else {}
            held = captured_call(
                recording, call(), step=step, release=lambda s=step: released.append(s), **changes
            )
            recording.put(held)
            time.sleep(0.05)
        recording.put(
            captured_call(recording, call(), step=0, release=lambda: released.append("again"))
        )
    assert sorted(released, key=str) == [0, 1, 2, 3, 4, 5, "again"]
    capsys.readouterr()


def test_a_predicate_that_fails_does_not_reach_the_model(store, capsys):
    options = CaptureOptions(predicate=lambda step, layer, site: 1 / 0)
    with Recording(store, options=options) as recording:
        assert not recording.wants(step=0, layer=0, site="x")
    (reason,) = recording.report().dropped
    assert "the predicate failed" in reason and "ZeroDivisionError" in reason
    capsys.readouterr()


def test_statistics_only(store):
    tensors = call()
    changes = Statistics(
        count=1, nonfinite=0, zeros=0, minimum=1.0, maximum=1.0, mean=1.0, std=0.0, absmax=1.0
    )
    with Recording(store, options=CaptureOptions(mode="stats")) as recording:
        recording.put(captured_call(recording, tensors, step=0))
        loaded = LoadedTensors(stats={"q": changes})
        shapes = {n: TensorEntry(dtype="float32", shape=(1,)) for n in "qk"}
        recording.put(captured_call(recording, {}, step=1, shapes=shapes, load=lambda: loaded))
    first, second = store.manifest().records
    values = tensors["k"].numbers().astype(np.float64)
    assert first.tensors["k"].stats.mean == pytest.approx(values.mean(), rel=1e-12)
    assert first.tensors["k"].stats.std == pytest.approx(values.std(), rel=1e-12)
    assert second.tensors["q"].stats == changes
    assert second.tensors["k"].stats is None and "not given" in second.tensors["k"].why
    assert not list(store.path.glob("records/*/*")) and first.file is None
    with pytest.raises(BadInput, match="captured as stats"):
        store.read(first)


def test_shapes_only_never_loads(store):
    def fails():
        raise AssertionError("loaded")

    with Recording(store, options=CaptureOptions(mode="shapes")) as recording:
        recording.put(captured_call(recording, call(), load=fails))
    (record,) = store.manifest().records
    assert record.tensors["q"].shape == (1, 1, 16, 4) and record.mode == "shapes"
    assert not recording.report().dropped


def test_npz_may_be_the_form_of_a_store(store):
    tensors = call() | {"mask": tensor_of(np.tri(4, dtype=bool))}
    with Recording(store, options=CaptureOptions(form="npz")) as recording:
        recording.put(captured_call(recording, tensors))
    (record,) = store.manifest().records
    assert record.file.endswith(".npz") and record.tensors["mask"].file.endswith(".npz")
    assert equal(store.read(record), tensors)


def test_many_threads_put_at_once(store):
    def work(layer):
        for step in range(50):
            recording.put(
                captured_call(recording, call(), step=step, layer=layer, site=f"{layer % 2}")
            )

    with Recording(store) as recording:
        threads = [threading.Thread(target=work, args=(layer,)) for layer in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    assert check_counts(recording, store, 200).records == 200


def test_what_does_not_belong_is_refused(store):
    with Recording(store) as other:
        pass
    refused = pytest.raises(BadInput, match="was put into run")
    with Recording(store) as recording, refused:
        recording.put(captured_call(other, call()))
    with pytest.raises(BadInput, match="is not open"):
        recording.put(captured_call(recording, call()))
