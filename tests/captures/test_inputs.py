"""A captured call is a workload like any other: same bits, same mask, and lies are refused."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from captured_calls import add, inputs, with_output

from assay.attention import reference
from assay.captures import mask as mask_of_calls
from assay.captures.inputs import captured_specs, make, workload_entry
from assay.captures.store import Store
from assay.captures.tensor import tensor_of
from assay.errors import BadInput
from assay.workloads.visibility import visibility_mask


@pytest.fixture
def store(tmp_path):
    return Store.create(tmp_path / "store")


def only(store, **choice):
    (spec,) = captured_specs(workload_entry(store.path, **choice))
    return spec


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_the_arrays_are_the_captured_ones(store, dtype):
    tensors = inputs(dtype=dtype)
    add(store, tensors)
    workload = make(only(store))
    for name in "qkv":
        assert np.array_equal(getattr(workload, name), tensors[name].numbers())
        assert getattr(workload, name).dtype == np.float32
    assert workload.spec.dtype == dtype and workload.spec.causal
    assert workload.identity.content == make(only(store)).identity.content


def masks(batch, queries, keys):
    causal = visibility_mask(queries, keys, causal=True)
    lengths = np.array([keys, keys - 3])
    right = np.arange(keys) < lengths[:, None, None, None]
    apart = np.arange(keys) - np.arange(queries)[:, None]
    left = np.arange(keys) >= (keys - lengths)[:, None, None, None]
    return {
        "causal": (causal, True, None, False),
        "all": (np.ones((queries, keys), bool), False, None, False),
        "right padding": (right & causal, True, lengths, False),
        "right padding alone": (right & (causal | ~causal), False, lengths, False),
        "left padding": (left & causal, True, None, True),
        "a window": (np.abs(apart) < 3, False, None, True),
    }  # fmt: skip


@pytest.mark.parametrize("block", [1, 40, 1 << 22])
@pytest.mark.parametrize("additive", [False, True])
@pytest.mark.parametrize("name", list(masks(2, 9, 9)))
def test_a_mask_becomes_the_plainest_that_means_the_same(store, name, additive, block, monkeypatch):
    monkeypatch.setattr(mask_of_calls, "_BLOCK_ELEMENTS", block)
    shown, causal, lengths, masked = masks(2, 9, 9)[name]
    shown = np.broadcast_to(shown, (2, 1, 9, 9))
    mask = np.where(shown, 0.0, np.finfo(np.float32).min).astype(np.float32) if additive else shown
    add(store, {**inputs(), "mask": tensor_of(np.ascontiguousarray(mask))}, causal=False)
    workload = make(only(store))
    assert workload.spec.causal == causal and workload.spec.masked == masked
    assert (lengths is None) == (workload.lengths is None)
    assert np.array_equal(np.broadcast_to(workload.visible, shown.shape), shown)


def test_torchs_causal_of_unequal_lengths_is_aligned_top_left(store):
    add(store, inputs(queries=4, keys=9), causal=True, alignment="top-left")
    workload = make(only(store))
    assert np.array_equal(workload.visible[0, 0], np.tri(4, 9, dtype=bool))
    assert workload.spec.masked


def planning_bytes(store) -> int:
    """Memory that planning takes at its peak, of what NumPy and Python allocate."""
    tracemalloc.start()
    try:
        only(store)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def long_inputs(length):
    return {name: tensor_of(np.zeros((1, 1, length, 1), np.float32)) for name in "qkv"}


@pytest.mark.parametrize("causal", [True, False])
def test_planning_does_not_take_the_length_squared(store, causal):
    add(store, long_inputs(20_000), causal=causal)
    assert planning_bytes(store) < 16 << 20
    assert only(store).causal == causal


def test_planning_with_a_mask_takes_little_more_than_the_mask(store):
    length = 6_000
    mask = visibility_mask(length, length, causal=True)[None, None]
    add(store, {**long_inputs(length), "mask": tensor_of(mask)}, causal=False)
    assert planning_bytes(store) < 2.5 * mask.nbytes + (64 << 20)
    assert only(store).causal


def test_decoding_is_full(store):
    add(store, inputs(queries=1), causal=True)
    assert not only(store).causal


def test_a_scale_of_its_own_is_kept(store):
    add(store, inputs(), scale=1.0)
    spec = only(store)
    assert spec.scale == 1.0 and make(spec).spec.scale == 1.0


def test_names_tell_records_apart_and_are_chosen_by_words(store):
    for layer in range(3):
        add(store, inputs(seed=layer), layer=layer)
    everything = captured_specs(workload_entry(store.path))
    assert len({spec.name for spec in everything}) == 3
    assert "captured-s0-l2" in everything[2].name
    assert [s.name for s in captured_specs(workload_entry(store.path, "layer=1:3"))] == [
        s.name for s in everything[1:]
    ]
    with pytest.raises(BadInput, match="has no record 'layer=7'"):
        captured_specs(workload_entry(store.path, "layer=7"))


def test_a_record_that_changed_after_planning_is_refused(store):
    record = add(store, inputs())
    spec = only(store)
    file = store.path / record.file
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(BadInput, match="checksum"):
        make(spec)


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"mode": "stats"}, "captured as stats"),
        ({"drop": "k"}, "has no k"),
        ({"dtype": "float64"}, "float64"),
        ({"bias": True}, "other numbers than 0"),
        ({"per_head": True}, "differs between heads"),
        ({"scale": None}, "does not say what its scores are multiplied with"),
    ],
)
def test_what_is_no_workload_says_why(store, change, reason):
    tensors = inputs()
    if change.get("dtype"):
        tensors = {name: tensor_of(t.numbers().astype("float64")) for name, t in tensors.items()}
    if change.get("bias"):
        tensors["mask"] = tensor_of(np.full((9, 9), -0.5, np.float32))
    if change.get("per_head"):
        shown = np.ones((2, 4, 9, 9), bool)
        shown[:, 1, :, 0] = False
        tensors["mask"] = tensor_of(shown)
    if change.get("drop"):
        del tensors[change["drop"]]
    add(store, tensors, **{k: v for k, v in change.items() if k in ("mode", "scale")})
    with pytest.raises(BadInput, match=reason):
        captured_specs(workload_entry(store.path))


def test_a_file_and_an_empty_store_are_refused(store, tmp_path):
    with pytest.raises(BadInput, match="it has no records"):
        captured_specs(workload_entry(store.path))
    file = tmp_path / "x.npz"
    file.touch()
    with pytest.raises(BadInput, match="capture import"):
        workload_entry(file)
    with pytest.raises(BadInput, match="not a store"):
        workload_entry(Path(tmp_path / "nothing"))


CAUSAL = visibility_mask(9, 9, causal=True)[None, None]


def test_what_the_model_computed_comes_along(store):
    tensors = with_output(inputs(), visible=CAUSAL)
    add(store, tensors, implementation="sdpa", versions={"torch": "1"})
    workload = make(only(store))
    assert workload.captured.implementation == "sdpa" and workload.captured.versions["torch"] == "1"
    own = reference.attention(
        workload.q, workload.k, workload.v, causal=True, scale=workload.spec.scale
    )
    assert np.allclose(workload.captured.out, own.out, atol=1e-6)


def test_kv_heads_that_were_repeated_first_make_another_call(store):
    """transformers repeats them where it passes a mask; torch may then choose another kernel."""
    tensors = with_output(inputs(), visible=CAUSAL)
    add(store, tensors, implementation="sdpa", kv_repeated=True)
    assert make(only(store)).captured.implementation == "sdpa on repeated kv heads"


def test_output_under_dropout_is_not_to_be_repeated(store):
    add(store, with_output(inputs(), visible=CAUSAL), dropout=0.1)
    assert make(only(store)).captured is None
