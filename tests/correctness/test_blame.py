"""State, memory and rounding are blamed only for what is right without them.

A kernel that is wrong on a shape, whoever calls it and whenever, was told as one that keeps a
buffer, reads memory it never wrote, or mixes up batch entries, by probes that change the shape.
"""

import pytest

pytest.importorskip("torch")

from bound_calls import bound, written

import assay
from assay.attention import contract
from assay.correctness import case_result, failure
from assay.correctness.probes import accuracy, batch, causality, determinism, gradients, metamorphic
from assay.correctness.tested import TestedImplementation
from assay.instruments import guard

MASKED = """\
group = q.shape[1] // k.shape[1]
k, v = (x.repeat_interleave(group, 1).float() for x in (k, v))
scores = scale * (q.float() @ k.mT)
if causal:
    ahead = torch.ones(scores.shape[-2:], dtype=torch.bool).triu({diagonal} + 1)
    scores = scores.masked_fill(ahead, {hidden})
return (scores.softmax(-1) @ v).to(q.dtype)"""
STATELESS = {
    "top_left": ("0", 'float("-inf")'),
    "wrong_sign": ("q.shape[2] - k.shape[2]", "-3e38"),
    "wrong_sign_nan": ("q.shape[2] - k.shape[2]", 'float("-inf")'),
}
ELSEWHERE = (
    "state", "earlier call", "remembered", "never written", "not finite", "rounding", "precision",
    "batch entries", "finite number that", "future enter", "contiguous", "order of summation",
)  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("name", STATELESS)
def test_a_wrong_mask_is_told_as_nothing_else(name, tmp_path):
    diagonal, hidden = STATELESS[name]
    path = written(tmp_path, name, MASKED.format(diagonal=diagonal, hidden=hidden))
    verdict = assay.check(str(path), quick=True)
    causes = {m.metric: m.cause or "" for m in verdict.failures}
    assert {"accuracy", "shapes", "purity"} <= set(causes)
    misled = {
        probe: cause
        for probe, cause in causes.items()
        if any(words in cause for words in ELSEWHERE)
    }
    assert not misled
    named = "top-left" if name == "top_left" else "sign of the offset"
    assert named in causes["accuracy"] and named in causes["shapes"]


def outcomes(probe, path, workload):
    """Reason and cause of each failure of a probe."""
    call = bound(path, workload)
    return [
        (m.reason, m.cause)
        for m in probe.measure(call, call.workload, call.host)
        if m.status == "failed"
    ]


def test_what_is_wrong_alone_is_not_mixed_up_with_neighbours(tmp_path):
    body = "return eager.attention(q, k, v, causal=causal, scale=scale) + (q.shape[0] == 1)"
    path = written(tmp_path, "wrong_alone", body)
    causes = [cause for _, cause in outcomes(batch, path, "b3_h2_s33_d32")]
    assert causes == [None, None, None]


def test_rows_without_keys_are_not_told_to_see_the_future(tmp_path):
    """With a finite number for a mask they are the mean of all values, hidden ones too."""
    aligned = MASKED.format(diagonal="k.shape[2] - q.shape[2]", hidden="-3e38")
    path = written(tmp_path, "mean", aligned)
    causes = [cause for _, cause in outcomes(causality, path, "b1_h2_q65_k33_d32")]
    assert causes and set(causes) == {causality._BLIND}
    late = MASKED.format(diagonal="k.shape[2] - q.shape[2] + 1", hidden="-3e38")
    path = written(tmp_path, "late", late)
    causes = [cause for _, cause in outcomes(causality, path, "b1_h2_q65_k33_d32")]
    assert causality._SEES in causes


def test_nan_that_is_there_already_is_not_a_change(tmp_path):
    diagonal, hidden = STATELESS["wrong_sign_nan"]
    path = written(tmp_path, "nan", MASKED.format(diagonal=diagonal, hidden=hidden))
    for probe in (causality, metamorphic):
        for reason, cause in outcomes(probe, path, "b1_h2_q33_k65_d32"):
            assert "not finite" in reason and cause is None


def test_bits_of_a_wrong_result_do_not_differ_by_an_order_of_summation(tmp_path):
    body = "return eager.attention(q, k, v, causal=causal, scale=scale) + torch.rand(1)"
    (reason, cause), *_ = outcomes(determinism, written(tmp_path, "noise", body), "b1_h2_s33_d32")
    assert "differ in their bits" in reason and cause is None


def test_a_copy_that_passes_on_wrong_values_is_no_sign_of_state(tmp_path):
    """Determinism holds for any wrong value that repeats itself."""
    body = "return eager.attention(q, k, v, causal=causal, scale=scale) + 1"
    path = written(tmp_path, "off", body)
    call = bound(path, "s33")
    tested = TestedImplementation(
        implementation=call.implementation,
        host=call.host,
        device="cpu",
        fresh=lambda: contract.load(str(path)),
    )
    spec = call.workload.spec
    assert case_result.run_case(tested, determinism, spec).status == "ok"
    assert not failure._passes_on_fresh_copy(tested, determinism, spec)


def test_a_gradient_of_ones_that_is_wrong_anyway_has_no_wrong_strides(tmp_path):
    head = """
class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, out):
        return out.clone()

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad if (grad == 1).all() else grad
"""
    body = "return Wrong.apply(eager.attention(q, k, v, causal=causal, scale=scale))"
    path = written(tmp_path, "ones", body, head=head)
    ((reason, cause),) = outcomes(gradients, path, "b1_h2_s33_d32")
    assert "expanded from one number" in reason and cause is None


def test_poisoned_memory_is_no_replacement_by_a_kernel_that_keeps_state(tmp_path):
    """In a worker, which watches what is replaced, a fresh copy never passed."""
    body = "KEPT.append(1)\nout = eager.attention(q, k, v, causal=causal, scale=scale)\nreturn out"
    path = written(tmp_path, "kept", f"{body} + (len(KEPT) > 9)", head="KEPT = []")
    call = bound(path, "s33")
    tested = TestedImplementation(
        implementation=call.implementation,
        host=call.host,
        device="cpu",
        fresh=lambda: contract.load(str(path)),
    )
    with guard.watched():
        assert failure._passes_on_fresh_copy(tested, accuracy, call.workload.spec)
