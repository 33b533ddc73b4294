"""Cut calls: what stays gives the very part of the output that it gave as part of the whole."""

import numpy as np
import pytest

from assay.attention import reference
from assay.captures.recording.cuts import cut
from assay.captures.recording.options import CaptureOptions

SCALE = 0.25


def call(*, heads=6, kv_heads=3, queries=11, keys=11, rows=4, seed=0):
    """q, k and v of float64."""
    draw = np.random.default_rng(seed).standard_normal
    return {
        "q": draw((rows, heads, queries, 8)),
        "k": draw((rows, kv_heads, keys, 8)),
        "v": draw((rows, kv_heads, keys, 8)),
    }


def visible(queries, keys, *, causal, alignment):
    offset = keys - queries if alignment == "bottom-right" else 0
    return np.tri(queries, keys, offset, dtype=bool) if causal else np.ones((queries, keys), bool)


def output(tensors, *, causal, alignment="bottom-right"):
    q, k, v = (tensors[name] for name in "qkv")
    seen = visible(q.shape[2], k.shape[2], causal=causal, alignment=alignment)
    if "mask" in tensors:
        seen = np.broadcast_to(seen & tensors["mask"], (*q.shape[:3], k.shape[2]))
    else:
        seen = np.broadcast_to(seen, (*q.shape[:3], k.shape[2]))
    return reference.attention(q, k, v, causal=False, scale=SCALE, visible=seen).out


def check(tensors, options, *, causal, alignment="bottom-right"):
    """The output of the cut inputs is the cut output."""
    tensors = {**tensors, "out": output(tensors, causal=causal, alignment=alignment)}
    part = cut(tensors, options, causal=causal, alignment=alignment)
    assert not part.why
    again = output(part.tensors, causal=causal, alignment=part.alignment)
    assert again.shape == part.tensors["out"].shape and again.size
    np.testing.assert_allclose(again, part.tensors["out"], rtol=1e-12, atol=1e-12)
    return part


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", ["1", "0,2", "1:", [2, 0]])
def test_kv_heads_take_the_queries_that_read_them_along(heads, causal):
    part = check(call(), CaptureOptions(heads=heads), causal=causal)
    assert part.tensors["q"].shape[1] == 2 * part.tensors["k"].shape[1] < 6
    assert "of 3" in part.cut["heads"]


@pytest.mark.parametrize("keys", [11, 20, 7])
@pytest.mark.parametrize("positions", ["0:5", "3:7", "9:50"])
def test_queries_of_a_causal_call_keep_the_keys_they_see(positions, keys):
    part = check(call(keys=keys), CaptureOptions(positions=positions), causal=True)
    start, end = (min(11, int(part)) for part in positions.split(":"))
    assert part.tensors["q"].shape[2] == end - start
    assert part.tensors["k"].shape[2] == end + keys - 11


@pytest.mark.parametrize("positions", ["0:4", "3:7"])
def test_queries_aligned_top_left(positions):
    part = check(
        call(keys=20), CaptureOptions(positions=positions), causal=True, alignment="top-left"
    )
    assert part.tensors["k"].shape[2] == int(positions[-1])


def test_top_left_with_fewer_keys_than_queries_is_left_whole_where_no_alignment_would_tell_it():
    part = check(call(keys=5), CaptureOptions(positions="3:7"), causal=True, alignment="top-left")
    assert not part.cut and part.tensors["q"].shape[2] == 11
    part = check(call(keys=5), CaptureOptions(positions="0:7"), causal=True, alignment="top-left")
    assert part.tensors["q"].shape[2] == 7 and part.alignment == "top-left"


def test_queries_of_a_call_that_is_not_causal_keep_every_key():
    part = check(call(keys=20), CaptureOptions(positions="3:7"), causal=False)
    assert part.tensors["k"].shape[2] == 20 and part.tensors["q"].shape[2] == 4


@pytest.mark.parametrize("shape", [(4, 6, 11, 20), (4, 1, 11, 20), (1, 6, 1, 20), (11, 20)])
@pytest.mark.parametrize("causal", [False, True])
def test_masks_are_cut_alike_and_stay_broadcast(shape, causal):
    mask = np.random.default_rng(1).random(shape) < 0.7
    mask[..., 0] = True
    tensors = {**call(keys=20), "mask": mask}
    part = check(tensors, CaptureOptions(heads="0,2", positions="2:9", rows="1,3"), causal=causal)
    kept = part.tensors["mask"].shape
    assert all((a == 1) == (b == 1) for a, b in zip(kept, shape, strict=True))
    assert set(part.cut) == {"heads", "positions", "rows"}


def test_rows_cut_every_tensor_of_the_layer_too():
    tensors = {
        "x": np.zeros((4, 11, 5)),
        "positions": np.zeros((1, 11)),
        "cache.idx": np.zeros(4),
        "cache.k": np.zeros((4, 20, 3, 8)),
    }
    part = cut({**call(), **tensors}, CaptureOptions(rows="1:3"), causal=True)
    assert {name: array.shape[0] for name, array in part.tensors.items()} == {
        "q": 2, "k": 2, "v": 2, "x": 2, "positions": 1, "cache.idx": 2, "cache.k": 2,
    }  # fmt: skip
    alone = cut(tensors, CaptureOptions(rows="1:3", heads="0"), causal=True)
    assert alone.tensors["x"].shape[0] == 2 and set(alone.cut) == {"rows"} and not alone.why


def test_what_does_not_fit_the_cut_is_left_out_and_says_why():
    odd = {"x": np.zeros((4, 11, 5)), "mask": np.ones((4, 5, 11, 11), bool)}
    part = cut({**call(), **odd}, CaptureOptions(heads="0"), causal=True)
    assert set(part.tensors) == {"q", "k", "v"}
    assert "layer" in part.why["x"] and "axis of 5" in part.why["mask"]
    for nothing in (
        cut(call(queries=1), CaptureOptions(positions="5:9"), causal=True),
        cut(call(keys=7), CaptureOptions(positions="0:4"), causal=True),
        cut(call(), CaptureOptions(rows="9"), causal=True),
        cut(call(), CaptureOptions(heads="9"), causal=True),
    ):
        assert not nothing.tensors and "the cut leaves nothing" in nothing.why["k"]


def test_nothing_asked_is_nothing_done():
    tensors = call()
    part = cut(tensors, CaptureOptions(), causal=True)
    assert part.tensors == tensors and not part.cut and not part.why


@pytest.mark.parametrize("library", ["torch", "jax.numpy"])
def test_arrays_of_other_libraries(library):
    made = pytest.importorskip(library)
    tensors = call()
    options = CaptureOptions(heads="0,2", positions="2:9", rows="1:3")
    theirs = cut({n: made.asarray(a) for n, a in tensors.items()}, options, causal=True)
    ours = cut(tensors, options, causal=True)
    for name, array in ours.tensors.items():
        assert type(theirs.tensors[name]) is type(made.asarray(array))
        np.testing.assert_allclose(np.asarray(theirs.tensors[name]), array, rtol=1e-6)
