"""Correctness before timing, within a cell; and where memory ends."""

from types import SimpleNamespace

import pytest

from assay.performance.admission import Admission
from assay.performance.limits import longest
from assay.records.schema import Measurement
from assay.subjects.outcome import Unsupported

PROBES = {
    "memory": SimpleNamespace(),
    "latency": SimpleNamespace(PAIRED=True, NEEDS=("accuracy", "kernels")),
    "backward": SimpleNamespace(PAIRED=True, NEEDS=("accuracy", "gradients")),
    "gradients": SimpleNamespace(),
    "accuracy": SimpleNamespace(),
}


def verdict(status: str) -> Measurement:
    reason = None if status == "ok" else "so it is"
    value = 1.0 if status == "ok" else None
    return Measurement(
        metric="m", value=value, unit="", subject="mine", status=status, reason=reason
    )


def test_what_others_need_comes_first_and_what_is_timed_before_the_rest():
    order = Admission(PROBES).in_order()
    assert set(order[:2]) == {"accuracy", "gradients"} and order[-1] == "memory"


@pytest.mark.parametrize(
    ("status", "expected"),
    [("failed", "refused"), ("timeout", "refused"), ("oom", "oom"), ("unsupported", "unsupported")],
)
def test_what_did_not_pass_is_not_timed(status, expected):
    gates = Admission(PROBES)
    gates.admit("accuracy", verdict("ok"))
    gates.admit("gradients", verdict("ok"))
    gates.admit("gradients", verdict(status))
    assert not gates.refusals("latency", ["mine"])
    refusal = gates.refusals("backward", ["mine", "other"])
    assert list(refusal) == ["mine"] and refusal["mine"].status == expected
    assert "its gradients is" in refusal["mine"].reason


@pytest.mark.parametrize("limit", [64, 1000, 18_211, 900_000])
def test_the_search_ends_at_the_limit(limit):
    tried = []
    measurements = longest(lambda length: tried.append(length) or length <= limit, 512)
    assert measurements <= limit and limit - measurements <= max(64, limit / 200) + 64
    assert len(tried) < 30


def test_a_search_without_end_is_given_up():
    with pytest.raises(Unsupported, match="more are not tried"):
        longest(lambda length: True, 512)
