"""Summaries of records: what was planted is found and named, what is missing has a reason."""

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


def calls_of(store, **options):
    return list(summaries(store, store.manifest().records, **options))


def observed(store):
    return "\n".join(observations(site_summaries(calls_of(store))))


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    return made.planted(tmp_path_factory.mktemp("inspect") / "store")


@pytest.fixture(scope="module")
def calls(planted):
    return calls_of(planted, with_maps=True)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_planted_channels_are_found_and_named(tmp_path, dtype):
    store = made.planted(tmp_path / dtype, steps=1, dtype=dtype)
    (call,) = summaries(store, store.find(f"layer={made.OUTLIER_LAYER}"))
    outliers = call.tensors["k"].channels.outliers
    places = {(o.head, o.channel) for o in outliers}
    assert places == {(made.OUTLIER_HEAD, channel) for channel in made.OUTLIER_CHANNELS}
    assert outliers[0].channel == made.OUTLIER_CHANNELS[0] and outliers[0].times > 20
    sentences = "\n".join(observations(site_summaries([call])))
    assert "2 key channels are up to" in sentences
    assert "head 1 channel 17, head 1 channel 29" in sentences


def test_a_planted_sink_is_found_and_named(calls):
    (site,) = [
        site
        for site in site_summaries(calls)
        if site.layer == made.SINK_LAYER and site.phase == "prefill"
    ]
    assert np.argmax(site.sink) == made.SINK_HEAD and site.sink[made.SINK_HEAD] > 0.95
    (sentence,) = [line for line in observations([site]) if "first key" in line]
    assert f"of the weight of head {made.SINK_HEAD}" in sentence


def test_nothing_stands_out_of_normal_numbers(tmp_path):
    store = Store.create(tmp_path / "plain")
    for layer in range(4):
        made.add(store, made.call(seed=layer, heads=8, kv_heads=8, dim=128), layer=layer)
    assert observed(store).startswith("Nothing stands out")


def test_numbers_that_are_not_finite_are_counted(tmp_path):
    def plant(values):
        values["v"][0, 0, 3, 4] = np.inf

    store = Store.create(tmp_path / "store")
    made.add(store, made.call(plant=plant, dtype="float16"))
    assert "1 number of v is not finite" in observed(store)


def test_few_tokens_give_no_outliers():
    absmax = np.ones((1, 8))
    absmax[0, 3] = 50
    few = channels_from_absmax(absmax, tokens=FEWEST_TOKENS - 1)
    enough = channels_from_absmax(absmax, tokens=FEWEST_TOKENS)
    assert few.outliers == () and "too few" in few.why
    assert [o.channel for o in enough.outliers] == [3]


def test_a_head_of_zeros_has_no_outliers():
    zeros = channels(np.zeros((1, 2, 16, 8), np.float32))
    assert zeros.outliers == () and np.isnan(zeros.times_HD).all()


def test_magnitudes_are_counted_by_powers_of_two():
    values = np.array([0, 1, -1.99, 2, 0.5, -0.25, 2.0**-50, 2.0**30, np.inf, np.nan], np.float32)
    histogram = magnitudes(values)
    counts = {int(histogram.low + i): n for i, n in enumerate(histogram.counts) if n}
    assert counts == {0: 2, 1: 1, -1: 1, -2: 1}
    assert (histogram.below, histogram.above, histogram.total) == (1, 1, 7)


def test_deviations_are_counted_in_halves_of_a_standard_deviation():
    values = np.array([-0.1, 0.1, 0.6, 1.2, -1.2, 11, -11], np.float32)
    histogram = deviations(values, mean=0.0, std=1.0)
    bins = {histogram.low + i * histogram.width: n for i, n in enumerate(histogram.counts) if n}
    assert bins == {-0.5: 1, 0.0: 1, 0.5: 1, 1.0: 1, -1.5: 1}
    assert histogram.below == histogram.above == 1
    assert deviations(np.ones(3, np.float32), mean=1.0, std=0.0) is None


def test_steps_of_a_site_are_put_together(calls):
    sites = site_summaries(calls)
    assert [(site.layer, site.phase, len(site.calls)) for site in sites] == [
        (layer, phase, count)
        for layer in range(3)
        for phase, count in (("prefill", 1), ("decode", 2))
    ]
    decode = sites[1]
    expected = np.mean([call.attention.entropy for call in decode.calls], axis=0)
    np.testing.assert_allclose(decode.entropy, expected)
    assert "2 tokens are too few" in decode.channels("q").why  # one query a step
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


def test_plain_data_has_these_keys_and_is_json(calls):
    for call in calls:
        plain = json.loads(json.dumps(as_json(call), allow_nan=False))
        assert set(plain) == RECORD_KEYS
        assert set(plain["attention"]) == ATTENTION_KEYS
        assert {frozenset(t) for t in plain["tensors"].values()} == {frozenset(TENSOR_KEYS)}
        assert plain["tensors"]["k"]["stats"]["absmax"] > 0


@pytest.mark.parametrize("mode", ["stats", "shapes"])
def test_records_without_tensors_show_what_they_have(tmp_path, mode):
    store = made.planted(tmp_path / mode, steps=1, mode=mode)
    calls = calls_of(store, with_maps=True)
    k = calls[made.OUTLIER_LAYER].tensors["k"]
    assert k.shape == (1, 2, 24, 32) and k.nbytes == 2 * 24 * 32 * 2
    assert k.log2_magnitudes is None and k.channels is None and mode in k.why
    assert calls[0].attention is None and mode in calls[0].why_no_attention
    assert (k.stats is not None) == (mode == "stats")
    if mode == "stats":
        place = made.OUTLIER_HEAD * 32 + made.OUTLIER_CHANNELS[0]
        assert k.stats.outliers[0][0] == place
    assert "need whole tensors" in observed(store)
    json.dumps([as_json(call) for call in calls], allow_nan=False)


@pytest.mark.parametrize("name", ["one.npz", "one.safetensors"])
def test_one_file_alone(tmp_path, name):
    tensor_files.write(tmp_path / name, made.call(plant=made.plant_outliers))
    call = file_summary(tmp_path / name)
    assert [o.channel for o in call.tensors["k"].channels.outliers] == [17, 29]
    assert call.attention is None and "scale" in call.why_no_attention


def test_a_file_that_carries_its_record_is_summarised_as_that(planted, tmp_path):
    record = planted.manifest().records[0]
    tensors = planted.read(record)
    note = msgspec.json.encode(record).decode()
    tensor_files.write(tmp_path / "whole.npz", tensors, note=note)
    (of_store,) = summaries(planted, [record])
    whole = file_summary(tmp_path / "whole.npz")
    assert whole.key == record.key and whole.attention == of_store.attention
    changed = {**tensors, "k": Tensor("bfloat16", tensors["k"].bits[:, :, -1:])}  # as in a delta
    tensor_files.write(tmp_path / "part.npz", changed, note=note)
    part = file_summary(tmp_path / "part.npz")
    assert part.attention is None and "k is not stored" in part.why_no_attention


def test_without_its_mask_a_call_has_no_weights(tmp_path):
    store = Store.create(tmp_path / "store")
    record = made.add(store, made.call())
    gone = TensorEntry(dtype="bool", shape=(1, 1, 24, 24), why="it is a function, not an array")
    record = msgspec.structs.replace(record, tensors={**record.tensors, "mask": gone})
    call = summarise(record, store.read(record))
    assert call.attention is None
    assert call.why_no_attention == "mask is not stored: it is a function, not an array"


def test_the_largest_call_of_a_module_has_a_map(calls):
    mapped = [(call.key.layer, call.key.step) for call in calls if call.map]
    assert mapped == [(0, 0), (1, 0), (2, 0)]  # the prefill
    assert calls[0].map.weights.shape == (24, 24)
