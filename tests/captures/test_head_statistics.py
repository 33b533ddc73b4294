"""Entropy, sinks and scores of a call, against attention computed directly."""

import numpy as np
import pytest

from assay.attention import reference
from assay.captures.inspect.head_statistics import attention_map, head_statistics, median_head
from assay.captures.inspect.scores import AttentionCall, attention_call
from assay.captures.tensor import tensor_of
from assay.errors import BadInput


def drawn(batch=2, heads=4, kv_heads=2, queries=7, keys=11, dim=8):
    normal = np.random.default_rng(3)
    q = normal.standard_normal((batch, heads, queries, dim)).astype(np.float32)
    k = normal.standard_normal((batch, kv_heads, keys, dim)).astype(np.float32)
    return q, k


def directly(q, k, *, seen, scale, bias=0.0):
    """Weights of every query, written out: softmax(q k^T scale + bias) over the keys seen."""
    k = np.repeat(k, q.shape[1] // k.shape[1], axis=1).astype(np.float64)
    scores = np.einsum("bhmd,bhnd->bhmn", q.astype(np.float64), k) * scale + bias
    raised = np.exp(scores) * seen
    return raised / raised.sum(-1, keepdims=True), scores


def entropies(weights):
    logs = np.log(np.where(weights > 0, weights, 1))
    return -(weights * logs).sum(-1)


def test_equals_a_direct_computation():
    q, k = drawn()
    heads = head_statistics(AttentionCall(q_BHMD=q, k_BKND=k, scale=0.7))
    weights, scores = directly(q, k, seen=np.ones((7, 11)), scale=0.7)
    np.testing.assert_allclose(heads.entropy, entropies(weights).mean((0, 2)), rtol=1e-12)
    np.testing.assert_allclose(heads.effective_keys, np.exp(heads.entropy), rtol=1e-12)
    np.testing.assert_allclose(heads.sink, weights[..., 0].mean((0, 2)), rtol=1e-12)
    np.testing.assert_allclose(heads.largest, weights.max(-1).mean((0, 2)), rtol=1e-12)
    np.testing.assert_allclose(heads.score_absmax, np.abs(scores).max((0, 2, 3)), rtol=1e-12)
    spread = (scores.max(-1) - scores.min(-1)).transpose(1, 0, 2).reshape(4, -1)
    np.testing.assert_allclose(heads.score_spread, np.median(spread, axis=1), rtol=1e-12)
    assert heads.measured == 14 and not heads.sampled and heads.hidden_share == 0


def test_uniform_attention_has_the_entropy_of_its_keys():
    q, k = drawn()
    heads = head_statistics(AttentionCall(q_BHMD=0 * q, k_BKND=k, scale=1.0))
    np.testing.assert_allclose(heads.entropy, np.log(11))
    np.testing.assert_allclose(heads.effective_keys, 11)
    np.testing.assert_allclose(heads.sink, 1 / 11)
    assert heads.uniform_entropy == pytest.approx(np.log(11))
    assert heads.uniform_sink == pytest.approx(1 / 11)


def test_one_hot_attention_has_none():
    q, k = np.zeros((1, 1, 4, 8), np.float32), np.zeros((1, 1, 6, 8), np.float32)
    q[..., 0], k[0, 0, 0, 0] = 100, 100
    heads = head_statistics(AttentionCall(q_BHMD=q, k_BKND=k, scale=1.0))
    assert heads.entropy == (0.0,) and heads.sink == (1.0,) and heads.largest == (1.0,)
    assert heads.score_absmax == (10_000.0,)


@pytest.mark.parametrize("alignment", ["bottom-right", "top-left"])
def test_causal_calls_see_what_their_alignment_says(alignment):
    q, k = drawn(queries=5, keys=9)
    heads = head_statistics(
        AttentionCall(q_BHMD=q, k_BKND=k, scale=1.0, causal=True, alignment=alignment)
    )
    last = np.arange(5) + (4 if alignment == "bottom-right" else 0)
    seen = np.arange(9) <= last[:, None]
    weights, _ = directly(q, k, seen=seen, scale=1.0)
    with_choice = seen.sum(1) >= 2  # the first query of top-left sees one key
    expected = entropies(weights)[:, :, with_choice].mean((0, 2))
    np.testing.assert_allclose(heads.entropy, expected, rtol=1e-12)
    assert heads.hidden_share == pytest.approx(1 - seen.mean())


@pytest.mark.parametrize("queries, keys", [(9, 9), (1, 17), (5, 12)])
def test_weights_and_values_give_what_the_reference_gives(queries, keys):
    """Heads, alignment and scale mean here what they mean to every implementation."""
    q, k = drawn(heads=6, queries=queries, keys=keys)
    v = np.random.default_rng(4).standard_normal(k.shape).astype(np.float32)
    expected = reference.attention(q, k, v, causal=True, scale=0.3).out
    call = AttentionCall(q_BHMD=q, k_BKND=k, scale=0.3, causal=True)
    for row in range(2):
        for head in range(6):
            scores, seen = call.scores(row, head, np.arange(queries))
            raised = np.exp(scores) * seen
            out = raised / raised.sum(1, keepdims=True) @ v[row, head // 3]
            np.testing.assert_allclose(out, expected[row, head], rtol=1e-10)


def masks():
    boolean = np.ones((2, 1, 7, 11), dtype=bool)
    boolean[0, ..., :3] = False  # padding on the left of row 0
    boolean[1, ..., 9:] = False  # and on the right of row 1
    lowest = np.finfo(np.float32).min
    return {
        "boolean": boolean,
        "one for all queries": boolean[:, :, :1],
        "additive": np.where(boolean, 0, lowest).astype(np.float32),
        "minus infinity": np.where(boolean, 0, -np.inf).astype(np.float32),
        "of numbers": boolean.astype(np.int32),
        "without heads": boolean[:, 0],
        "of keys alone": boolean[:, 0, 0],
    }


@pytest.mark.parametrize("kind", masks())
def test_masks_hide_what_they_say(kind):
    q, k = drawn()
    tensors = {"q": tensor_of(q), "k": tensor_of(k), "mask": tensor_of(masks()[kind])}
    heads = head_statistics(attention_call(tensors, {"scale": 1.0, "causal": False}))
    seen = masks()["boolean"]
    weights, _ = directly(q, k, seen=seen, scale=1.0)
    np.testing.assert_allclose(heads.entropy, entropies(weights).mean((0, 2)), rtol=1e-12)
    # The first key of row 0 is the one after its padding.
    sink = (weights[0, ..., 3].mean(-1) + weights[1, ..., 0].mean(-1)) / 2
    np.testing.assert_allclose(heads.sink, sink, rtol=1e-12)
    assert heads.padding_share == pytest.approx(5 / 22)


def test_a_mask_of_other_numbers_is_part_of_the_scores():
    q, k = drawn()
    bias = -0.5 * np.abs(np.arange(7)[:, None] - np.arange(11)).astype(np.float32)
    tensors = {"q": tensor_of(q), "k": tensor_of(k), "mask": tensor_of(bias)}
    heads = head_statistics(attention_call(tensors, {"scale": 1.0}))
    weights, _ = directly(q, k, seen=np.ones((7, 11)), scale=1.0, bias=bias)
    np.testing.assert_allclose(heads.entropy, entropies(weights).mean((0, 2)), rtol=1e-12)
    assert heads.padding_share == 0


def test_a_soft_cap_comes_before_mask_and_bias():
    q, k = drawn()
    bias = np.linspace(-1, 1, 11, dtype=np.float32)[None, None, None]
    seen = masks()["boolean"]
    tensors = {"q": tensor_of(4 * q), "k": tensor_of(k)}
    tensors |= {"bias": tensor_of(bias), "mask": tensor_of(seen)}
    heads = head_statistics(attention_call(tensors, {"scale": 1.0, "softcap": 2.0}))
    _, scores = directly(4 * q, k, seen=seen, scale=1.0)
    raised = np.exp(2 * np.tanh(scores / 2) + bias) * seen
    weights = raised / raised.sum(-1, keepdims=True)
    np.testing.assert_allclose(heads.entropy, entropies(weights).mean((0, 2)), rtol=1e-12)


def test_a_query_that_sees_nothing_is_counted_and_left_out():
    q, k = drawn(batch=1)
    mask = np.ones((1, 1, 7, 11), dtype=bool)
    mask[..., 2, :] = False
    tensors = {"q": tensor_of(q), "k": tensor_of(k), "mask": tensor_of(mask)}
    heads = head_statistics(attention_call(tensors, {"scale": 1.0}))
    assert heads.blind == 1 and heads.measured == 6
    assert all(np.isfinite(heads.entropy))


def test_numbers_that_are_not_finite_are_left_out_and_counted():
    q, k = drawn(batch=1)
    q[0, 1, 3, 0] = np.inf
    heads = head_statistics(AttentionCall(q_BHMD=q, k_BKND=k, scale=1.0))
    assert heads.nonfinite == 1 and all(np.isfinite(heads.entropy))
    k[:] = np.nan
    heads = head_statistics(AttentionCall(q_BHMD=q, k_BKND=k, scale=1.0))
    assert heads.entropy == (None,) * 4 and heads.uniform_entropy is None


def test_long_calls_are_sampled_and_say_so():
    q, k = drawn(batch=1, queries=300, keys=300)
    call = AttentionCall(q_BHMD=q, k_BKND=k, scale=0.3, causal=True)
    some, every = head_statistics(call, most_pairs=300 * 4 * 64), head_statistics(call)
    assert some.sampled and (some.queries, some.of_queries) == (64, 300)
    assert not every.sampled
    np.testing.assert_allclose(some.entropy, every.entropy, rtol=0.05)


def test_a_map_is_coarse_weights_of_one_head():
    q, k = drawn(batch=1, queries=96, keys=96)
    call = AttentionCall(q_BHMD=q, k_BKND=k, scale=1.0, causal=True)
    coarse_map = attention_map(call, head=3, size=48)
    weights, _ = directly(q, k, seen=np.tri(96, dtype=bool), scale=1.0)
    coarse = weights[0, 3].reshape(48, 2, 48, 2).sum(3).mean(1)
    np.testing.assert_allclose(coarse_map.weights, coarse, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(coarse_map.weights.sum(1), 1)


def test_a_map_of_one_query_is_one_line():
    q, k = drawn(batch=1, queries=1, keys=100)
    coarse_map = attention_map(AttentionCall(q_BHMD=q, k_BKND=k, scale=1.0), head=0)
    assert coarse_map.weights.shape == (1, 48) and coarse_map.weights.sum() == pytest.approx(1)


def test_the_median_head_is_neither_the_most_peaked_nor_the_most_even():
    q, k = drawn(batch=1, heads=3, kv_heads=1)
    q[:, 0] *= 50
    q[:, 1] *= 0.001
    assert median_head(head_statistics(AttentionCall(q_BHMD=q, k_BKND=k, scale=1.0))) == 2


REFUSED = {
    "no k": ({"q": np.zeros((1, 1, 2, 4))}, {"scale": 1.0}, "there is no k"),
    "no scale": ({n: np.zeros((1, 1, 2, 4)) for n in "qk"}, {}, "does not say its scale"),
    "three axes": ({n: np.zeros((1, 2, 4)) for n in "qk"}, {"scale": 1.0}, "wanted batch"),
    "a window": ({n: np.zeros((1, 1, 2, 4)) for n in "qk"}, {"scale": 1.0, "window": 30}, "window"),
    "learned sinks": (
        {n: np.zeros((1, 1, 2, 4)) for n in "qk"} | {"sinks": np.ones(1)}, {"scale": 1.0}, "sinks",
    ),
    "a mask that does not fit": (
        {n: np.zeros((1, 1, 2, 4)) for n in "qk"} | {"mask": np.ones((5, 5), bool)},
        {"scale": 1.0}, "does not fit",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_call_that_cannot_be_computed_is_refused(case):
    arrays, scalars, message = REFUSED[case]
    with pytest.raises(BadInput, match=message):
        attention_call({name: tensor_of(array) for name, array in arrays.items()}, scalars)
