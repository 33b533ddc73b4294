"""Looks at records: what was planted is found and named, what is not there has a reason."""

import json

import captured_calls as made
import msgspec
import numpy as np
import pytest

from assay.captures import tensor_files
from assay.captures.inspect.distribution import (
    FEWEST_TOKENS,
    channels,
    channels_from_absmax,
    deviations,
    magnitudes,
)
from assay.captures.inspect.inspection import file_summary, summaries
from assay.captures.inspect.observations import observations
from assay.captures.inspect.sites import site_summaries
from assay.captures.inspect.summary import as_json, summarise
from assay.captures.manifest import TensorEntry
from assay.captures.store import Store
from assay.captures.tensor import Tensor
from assay.errors import BadInput


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    return made.planted(tmp_path_factory.mktemp("inspect") / "store")


@pytest.fixture(scope="module")
def seen(planted):
    records = planted.manifest().records
    return list(summaries(planted, records, with_maps=True))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_planted_channels_are_found_and_named(tmp_path, dtype):
    store = made.planted(tmp_path / dtype, steps=1, dtype=dtype)
    found = list(summaries(store, store.find(f"layer={made.OUTLIER_LAYER}")))
    outliers = found[0].tensors["k"].channels.outliers
    places = {(o.head, o.channel) for o in outliers}
    assert places == {(made.OUTLIER_HEAD, channel) for channel in made.OUTLIER_CHANNELS}
    assert outliers[0].channel == made.OUTLIER_CHANNELS[0] and outliers[0].times > 20
    sentences = "\n".join(observations(site_summaries(found)))
    assert "2 key channels are up to" in sentences
    assert "head 1 channel 17, head 1 channel 29" in sentences


def test_a_planted_sink_is_found_and_named(seen):
    layer = [s for s in site_summaries(seen) if s.layer == made.SINK_LAYER and s.phase == "prefill"]
    sink = layer[0].sink
    assert np.argmax(sink) == made.SINK_HEAD and sink[made.SINK_HEAD] > 0.95
    (sentence,) = [line for line in observations(layer) if "first key" in line]
    assert f"of the weight of head {made.SINK_HEAD}" in sentence


def test_nothing_stands_out_of_normal_numbers(tmp_path):
    store = Store.create(tmp_path / "plain")
    for layer in range(4):
        made.add(store, made.call(seed=layer, heads=8, kv_heads=8, dim=128), layer=layer)
    found = list(summaries(store, store.manifest().records))
    assert observations(site_summaries(found))[0].startswith("Nothing stands out")


def test_few_tokens_tell_no_outliers():
    absmax = np.ones((1, 8))
    absmax[0, 3] = 50
    few = channels_from_absmax(absmax, tokens=FEWEST_TOKENS - 1)
    enough = channels_from_absmax(absmax, tokens=FEWEST_TOKENS)
    assert few.outliers == () and "too few" in few.why
    assert [o.channel for o in enough.outliers] == [3]


def test_a_head_of_zeros_has_no_outliers():
    found = channels(np.zeros((1, 2, 16, 8), np.float32))
    assert found.outliers == () and np.isnan(found.times_HD).all()


def test_magnitudes_are_counted_by_powers_of_two():
    values = np.array([0, 1, -1.99, 2, 0.5, -0.25, 2.0**-50, 2.0**30, np.inf, np.nan], np.float32)
    found = magnitudes(values)
    counts = {int(found.low + i): n for i, n in enumerate(found.counts) if n}
    assert counts == {0: 2, 1: 1, -1: 1, -2: 1}
    assert (found.below, found.above, found.total) == (1, 1, 7)


def test_deviations_are_counted_in_halves_of_a_standard_deviation():
    values = np.array([-0.1, 0.1, 0.6, 1.2, -1.2, 11, -11], np.float32)
    found = deviations(values, mean=0.0, std=1.0)
    counts = {found.low + i * found.width: n for i, n in enumerate(found.counts) if n}
    assert counts == {-0.5: 1, 0.0: 1, 0.5: 1, 1.0: 1, -1.5: 1}
    assert found.below == found.above == 1
    assert deviations(np.ones(3, np.float32), mean=1.0, std=0.0) is None


def test_steps_of_a_site_are_put_together(seen):
    found = site_summaries(seen)
    assert [(s.layer, s.phase, len(s.calls)) for s in found] == [
        (layer, phase, count)
        for layer in range(3)
        for phase, count in (("prefill", 1), ("decode", 2))
    ]
    decode = found[1]
    expected = np.mean([call.attention.entropy for call in decode.calls], axis=0)
    np.testing.assert_allclose(decode.entropy, expected)
    q = decode.channels("q")
    assert q.why and "2 tokens are too few" in q.why  # one query a step
    total = sum(call.tensors["k"].log2_magnitudes.total for call in decode.calls)
    assert decode.magnitudes("k").total == total


RECORD_KEYS = {
    "name", "run", "rank", "step", "layer", "site", "call", "phase", "mode", "framework",
    "implementation", "device", "scalars", "cut", "stored_bytes", "tensors", "attention",
    "why_no_attention",
}  # fmt: skip
TENSOR_KEYS = {
    "dtype", "shape", "nbytes", "order", "stats", "log2_magnitudes", "deviations_in_std",
    "channels", "why",
}  # fmt: skip
ATTENTION_KEYS = {
    "entropy", "effective_keys", "sink", "largest", "score_absmax", "score_spread",
    "uniform_entropy", "uniform_sink", "queries", "of_queries", "sampled", "measured", "blind",
    "nonfinite", "padding_share", "hidden_share",
}  # fmt: skip


def test_plain_data_has_these_keys_and_is_json(seen):
    for one in seen:
        found = json.loads(json.dumps(as_json(one), allow_nan=False))
        assert set(found) == RECORD_KEYS
        assert set(found["attention"]) == ATTENTION_KEYS
        assert {frozenset(t) for t in found["tensors"].values()} == {frozenset(TENSOR_KEYS)}
        assert found["tensors"]["k"]["stats"]["absmax"] > 0


@pytest.mark.parametrize("mode", ["stats", "shapes"])
def test_records_without_tensors_show_what_they_have(tmp_path, mode):
    store = made.planted(tmp_path / mode, steps=1, mode=mode)
    records = store.manifest().records
    found = list(summaries(store, records, with_maps=True))
    k = found[made.OUTLIER_LAYER].tensors["k"]
    assert k.shape == (1, 2, 24, 32) and k.nbytes == 2 * 24 * 32 * 2
    assert k.log2_magnitudes is None and k.channels is None and mode in k.why
    assert found[0].attention is None and mode in found[0].why_no_attention
    assert (k.stats is not None) == (mode == "stats")
    if mode == "stats":
        place = made.OUTLIER_HEAD * 32 + made.OUTLIER_CHANNELS[0]
        assert k.stats.outliers[0][0] == place
    assert "need whole tensors" in observations(site_summaries(found))[0]
    json.dumps([as_json(call) for call in found], allow_nan=False)


def test_numbers_that_are_not_finite_are_told(tmp_path):
    def plant(values):
        values["v"][0, 0, 3, 4] = np.inf

    store = Store.create(tmp_path / "store")
    made.add(store, made.call(plant=plant, dtype="float16"))
    found = summaries(store, store.manifest().records)
    assert "1 number of v is not finite" in "\n".join(observations(site_summaries(found)))


def test_one_file_alone(tmp_path):
    for name in ("one.npz", "one.safetensors"):
        tensor_files.write(tmp_path / name, made.call(plant=made.plant_outliers))
        seen = file_summary(tmp_path / name)
        assert [o.channel for o in seen.tensors["k"].channels.outliers] == [17, 29]
        assert seen.attention is None and "scale" in seen.why_no_attention


def test_a_file_that_carries_its_record_is_seen_as_that(planted, tmp_path):
    record = planted.manifest().records[0]
    tensors = planted.read(record)
    note = msgspec.json.encode(record).decode()
    tensor_files.write(tmp_path / "whole.npz", tensors, note=note)
    (of_store,) = summaries(planted, [record])
    seen = file_summary(tmp_path / "whole.npz")
    assert seen.key == record.key and seen.attention == of_store.attention
    part = {**tensors, "k": Tensor("bfloat16", tensors["k"].bits[:, :, -1:])}  # as a delta is kept
    tensor_files.write(tmp_path / "part.npz", part, note=note)
    seen = file_summary(tmp_path / "part.npz")
    assert seen.attention is None and "k is not stored" in seen.why_no_attention


def test_without_its_mask_a_call_has_no_weights(tmp_path):
    store = Store.create(tmp_path / "store")
    record = made.add(store, made.call())
    gone = TensorEntry(dtype="bool", shape=(1, 1, 24, 24), why="it is a function, not an array")
    record = msgspec.structs.replace(record, tensors={**record.tensors, "mask": gone})
    seen = summarise(record, store.read(record))
    assert seen.attention is None
    assert seen.why_no_attention == "mask is not stored: it is a function, not an array"


def test_a_changed_file_is_refused(tmp_path):
    store = made.planted(tmp_path / "store", steps=1)
    record = store.manifest().records[0]
    path = store.path / record.file
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(BadInput, match="checksum"):
        list(summaries(store, store.manifest().records))


def test_an_empty_store_has_nothing_to_see(tmp_path):
    store = Store.create(tmp_path / "empty")
    assert list(summaries(store, store.manifest().records)) == []
    assert observations([]) == ["Nothing was captured."]


def test_a_head_that_is_not_there_is_refused(planted):
    with pytest.raises(BadInput, match="head 9 is not one of the 4"):
        list(summaries(planted, planted.manifest().records, head=9))


def test_the_fullest_call_of_a_site_has_a_picture(planted, seen):
    drawn = [(call.key.layer, call.key.step) for call in seen if call.map]
    assert drawn == [(0, 0), (1, 0), (2, 0)]  # the prefill
    assert seen[0].map.weights.shape == (24, 24)
