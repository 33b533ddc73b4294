"""The likely cause is drawn from the cases that say something about it, and from those alone."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import assay
from assay.attention.sequence import eager
from assay.correctness.diagnosis.cause import evidence
from assay.correctness.diagnosis.failure import Failure


def top_left(q, k, v, *, causal, scale):
    """Attention whose causal mask is right on equal lengths only."""
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = scale * (q.float() @ k.float().mT)
    if causal:
        ahead = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(ahead, float("-inf"))
    return (scores.softmax(-1) @ v.float()).to(q.dtype)


def test_a_case_that_raises_leaves_the_others_their_cause():
    """A kernel that lacks a dtype raises on some cases, and its mask is wrong on others. One that
    raised was enough, and no cause was named at all."""

    def attention(q, k, v, *, causal, scale):
        if q.dtype == torch.float16:
            raise TypeError("float16 is not implemented")
        return top_left(q, k, v, causal=causal, scale=scale)

    (failure,) = assay.check(attention, probes=["shapes"], quick=True).failures
    assert "where it does not raise, the causal mask is aligned top-left" in failure.cause


def test_masks_that_are_alike_where_keys_are_fewer_are_told_apart():
    """A public kernel shifts its diagonal the wrong way where Sq < Sk, is top-left where Sq > Sk,
    and raises in half precision. The one case of float32 that was wrong had Sq > Sk, so it was
    called top-left, beside a case that raises."""

    def attention(q, k, v, *, causal, scale):
        if q.dtype != torch.float32:
            raise RuntimeError("expected scalar type Float but found Half")
        (queries, keys), group = (q.shape[2], k.shape[2]), q.shape[1] // k.shape[1]
        k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
        scores = scale * (q @ k.mT)
        if causal:
            hidden = torch.ones(queries, keys, dtype=torch.bool).triu(1 - max(keys - queries, 0))
            scores = scores.masked_fill(hidden, -torch.finfo(q.dtype).max)
        return scores.softmax(-1) @ v

    (failure,) = assay.check(attention, probes=["accuracy"], quick=True).failures
    assert "the sign of the offset is wrong" in failure.cause
    assert "top-left" not in failure.cause
    assert "_float32" in failure.workload.name


def test_a_known_bug_is_named_beside_cases_that_are_not_finite():
    """JAX's Pallas attention is top-left where Sq < Sk and not finite where Sq > Sk. Told was that
    something is not finite, beside a case that is."""

    def attention(q, k, v, *, causal, scale):
        out = top_left(q, k, v, causal=causal, scale=scale)
        return out / 0 if causal and q.shape[2] > k.shape[2] else out

    (failure,) = assay.check(attention, probes=["shapes"], quick=True).failures
    assert failure.cause.startswith("the causal mask is aligned top-left")
    assert "; in other cases out is not finite" in failure.cause


class RingLike(torch.autograd.Function):
    """Rows that see no key are averaged; the backward is top-left."""

    @staticmethod
    def forward(ctx, q, k, v, causal, scale):
        scores, shape = scale * (q @ k.mT), (q.shape[2], k.shape[2])
        if causal:
            seen = torch.ones(shape, dtype=torch.bool).tril(shape[1] - shape[0])
            scores = scores.masked_fill(~seen, -torch.finfo(q.dtype).max)
        ctx.causal, ctx.scale, out = causal, scale, scores.softmax(-1) @ v
        ctx.save_for_backward(q, k, v, out, scores.logsumexp(-1, keepdim=True))
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, out, lse = ctx.saved_tensors
        weights = torch.exp(ctx.scale * (q @ k.mT) - lse)
        if ctx.causal:
            weights = weights.tril()
        grad_s = ctx.scale * weights * (grad @ v.mT - (grad * out).sum(-1, keepdim=True))
        return grad_s @ k, grad_s.mT @ q, weights.mT @ grad, None, None


def test_a_mistake_of_the_backward_is_named_beside_one_of_the_forward():
    """A public ring attention averages rows that see no key, and its backward is top-left where its
    forward is right. The wrong output hid the wrong gradients."""

    def attention(q, k, v, *, causal, scale):
        k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
        return RingLike.apply(q.float(), k.float(), v.float(), causal, scale).to(q.dtype)

    (failure,) = assay.check(attention, probes=["shapes"], quick=True).failures
    assert failure.cause.startswith("queries that see no key give other values in out")
    assert "; where the output is right, the causal mask of the backward is" in failure.cause


def test_where_every_failing_case_raises_their_condition_is_named():
    def attention(q, k, v, *, causal, scale):
        if q.dtype == torch.float16:
            raise TypeError("float16 is not implemented")
        return eager.attention(q, k, v, causal=causal, scale=scale)

    (failure,) = assay.check(attention, probes=["shapes"], quick=True).failures
    assert failure.cause == "it fails only in float16"


def test_a_probe_that_compares_no_values_is_no_evidence():
    """Metamorphic holds on 33 queries and 65 keys, as scores may be shifted under any mask. That
    case counted as right, so the condition was lost."""
    verdict = assay.check(top_left, probes=["metamorphic", "shapes"], quick=True)
    (failure,) = verdict.failures
    assert failure.cause.endswith("(it fails only where Sq != Sk and the mask is causal)")


def test_an_output_that_is_right_says_nothing_of_gradients():
    passing = {name: [name] for name in ("accuracy", "gradients", "purity", "shapes")}
    assert evidence("gradients", passing) == ["gradients", "shapes"]
    assert evidence("shapes", passing) == ["gradients", "shapes"]
    assert evidence("accuracy", passing) == ["accuracy", "shapes"]


def test_a_factor_near_one_is_no_rounding():
    """Of an output 1.0005 times too large it was said that TF32 explains it."""

    def attention(q, k, v, *, causal, scale):
        return 1.0005 * eager.attention(q, k, v, causal=causal, scale=scale)

    (failure,) = assay.check(attention, probes=["accuracy"], quick=True).failures
    assert "every element of out is 1.0005 times what it should be" in failure.cause


def test_values_beside_which_every_budget_is_without_end_explain_nothing():
    right = np.full((1, 1, 1, 4), 1e-300)
    arrays = {"actual": np.ones_like(right), "right": right, "allowed": np.full_like(right, 1e-3)}
    failure = Failure(workload=None, tensor="o", **arrays)
    assert failure.share(np.full_like(right, 1e300)) > 1
    assert failure.share(np.ones_like(right)) == 0.0
