"""The purity probe blames state only where a fresh process shows that it is state."""

import pytest

pytest.importorskip("torch")

from bound_calls import bound, written

from assay.correctness.probes import purity

TOP_LEFT = """\
scores = q @ k.mT * scale
if causal:
    ahead = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    scores = scores.masked_fill(ahead, float("-inf"))
return scores.softmax(-1) @ v"""

STALE = """\
group = q.shape[1] // k.shape[1]
k, v = (x.repeat_interleave(group, 1) for x in (k, v))
out = eager.attention(q, k, v, causal=causal, scale=scale)
KEPT.append(max([k.shape[2], *KEPT]))
return out if k.shape[2] == KEPT[-1] else out + 1"""


def failures(path):
    """Reason and cause of each failure of purity."""
    call = bound(path, "b2_h2_s65_d32")
    measurements = purity.measure(call, call.workload, call.host)
    return [(m.reason, m.cause) for m in measurements if m.status == "failed"]


def test_another_shape_is_not_taken_for_state(tmp_path):
    """A causal mask aligned top-left is right on equal lengths. The shorter call that purity makes
    after a longer one has unequal lengths: the likely cause was "a buffer kept from an earlier
    call", wrong 8 times of 8 on public kernels."""
    ((reason, cause),) = failures(written(tmp_path, "top_left", TOP_LEFT))
    assert "on b2_h2_kv2_q31_k33_d32_causal_float32" in reason, reason
    assert cause is None and "after a longer one" not in reason


def test_state_is_blamed_where_a_fresh_process_is_right(tmp_path):
    reasons = failures(written(tmp_path, "stale", STALE, head="KEPT = []"))
    causes = [
        cause for reason, cause in reasons if "on a shorter call after a longer one" in reason
    ]
    assert causes == [purity._LEFT_BEHIND]
