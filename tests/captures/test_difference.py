"""Differences of two stores: one flipped bit is named, and distances are counted in steps."""

import shutil

import captured_calls as made
import numpy as np
import pytest

from assay.captures import tensor_files
from assay.captures.inspect.difference import compare_tensors, differences, ulps_apart
from assay.captures.store import Store
from assay.captures.tensor import Tensor, tensor_of


@pytest.fixture
def store(tmp_path):
    return made.planted(tmp_path / "first", steps=1)


def changed(tmp_path, *, change=lambda tensors: None, run="20270101T000000.000Z-late", **how):
    """The same store captured again, in a run of another name; `change` alters layer 1."""
    again = Store.create(tmp_path / "second")
    plants = {made.OUTLIER_LAYER: made.plant_outliers, made.SINK_LAYER: made.plant_sink}
    for layer in range(3):
        tensors = made.call(seed=layer, plant=plants.get(layer))
        if layer == 1:
            change(tensors)
        made.add(again, tensors, layer=layer, run=run, **how)
    return again


def unequal(first, second):
    return [call for call in differences(first.path, second.path) if not call.equal]


def test_a_store_equals_itself_and_its_second_capture(store, tmp_path):
    assert unequal(store, store) == []
    assert unequal(store, changed(tmp_path)) == []


def test_one_flipped_bit_is_found_and_named(store, tmp_path):
    def flip(tensors):
        bits = tensors["v"].bits.copy()
        bits[0, 1, 7, 3] ^= 1
        tensors["v"] = Tensor("bfloat16", bits)

    (call,) = unequal(store, changed(tmp_path, change=flip))
    assert call.name == "step 0 layer 1"
    (tensor,) = call.tensors
    assert (tensor.name, tensor.what, tensor.where) == ("v", "bits", (0, 1, 7, 3))
    assert (tensor.places, tensor.of_places, tensor.max_ulps) == (1, 2 * 24 * 32, 1)
    assert 0 < tensor.max_relative <= 2.0**-7


def test_other_dtypes_shapes_tensors_and_calls(store, tmp_path):
    def change(tensors):
        tensors["q"] = tensor_of(tensors["q"].numbers())
        tensors["k"] = Tensor("bfloat16", tensors["k"].bits[:, :, :5])
        del tensors["v"]

    second = changed(tmp_path, change=change)
    made.add(second, made.call(), layer=5, run="20270101T000000.000Z-late")
    layer_1, layer_5 = unequal(store, second)
    assert {t.name: t.what for t in layer_1.tensors} == {"q": "dtype", "k": "shape", "v": "first"}
    assert layer_5.only_in == "second" and "layer 5" in layer_5.name


def test_scalars_differ_and_implementations_do_not_count(store, tmp_path):
    call, *_ = unequal(store, changed(tmp_path, scale=0.5))
    assert call.facts == {"scale": (0.25, 0.5)}
    shutil.rmtree(tmp_path / "second")
    second = changed(tmp_path, implementation="eager")
    assert unequal(store, second) == []
    beside = [call.beside for call in differences(store.path, second.path)]
    assert beside[0] == {"implementation": ("sdpa", "eager")}


def test_statistics_are_compared_where_that_is_all_there_is(tmp_path):
    first = made.planted(tmp_path / "first", steps=1, mode="stats")
    same = changed(tmp_path, mode="stats")
    assert unequal(first, same) == []
    shutil.rmtree(same.path)
    full = changed(tmp_path)
    assert [call.facts["mode"] for call in unequal(first, full)] == [("stats", "full")] * 3


def test_calls_are_named_so_that_none_is_taken_for_another(tmp_path):
    both = Store.create(tmp_path / "both")
    for run in ("20260101T000000.000Z-a", "20260102T000000.000Z-b"):
        made.add(both, made.call(), run=run)
        made.add(both, made.call(), run=run, layer=-1)
    names = [call.name for call in differences(both.path, both.path)]
    assert names == [
        "step 0 layers.-1.attn, run 1",
        "step 0 layer 0, run 1",
        "step 0 layers.-1.attn, run 2",
        "step 0 layer 0, run 2",
    ]


def test_files_are_compared_too(tmp_path):
    first, second = tmp_path / "a.npz", tmp_path / "b.safetensors"
    tensor_files.write(first, made.call())
    tensor_files.write(second, made.call())
    assert [call.equal for call in differences(first, second)] == [True]


def test_not_a_number_equals_itself_and_zero_has_a_sign():
    values = np.array([np.nan, 0.0, 1.0], np.float32)
    assert compare_tensors({"q": tensor_of(values)}, {"q": tensor_of(values.copy())}) == ()
    (tensor,) = compare_tensors({"q": tensor_of(values)}, {"q": tensor_of(-values)})
    assert (tensor.places, tensor.max_abs) == (3, 2.0)
    (tensor,) = compare_tensors({"q": tensor_of(values[1:2])}, {"q": tensor_of(-values[1:2])})
    assert (tensor.max_abs, tensor.max_ulps) == (0.0, 0)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_steps_are_counted_as_numpy_counts_them(dtype):
    before = np.array([1.0, -1.0, 0.0, 3.5], dtype)
    after = before.copy()
    for _ in range(3):
        after = np.nextafter(after, np.array(np.inf, dtype))
    assert ulps_apart(dtype, before, after).tolist() == [3, 3, 3, 3]
    assert ulps_apart(dtype, after, before).tolist() == [3, 3, 3, 3]


def test_steps_cross_zero():
    tiny = np.array([np.nextafter(np.float32(0), np.float32(1))], np.float32)
    assert ulps_apart("float32", tiny, -tiny).tolist() == [2]
    bits = np.array([0x3F80, 0x8001], np.uint16)  # 1 and the smallest below zero
    assert ulps_apart("bfloat16", bits, np.array([0x3F81, 0x0000], np.uint16)).tolist() == [1, 1]
