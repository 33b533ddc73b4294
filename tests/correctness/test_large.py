"""More batch entries and heads than an axis of a grid can count."""

from dataclasses import replace

import pytest

pytest.importorskip("torch")

from assay import host
from assay.attention.contract import Implementation
from assay.attention.sequence import eager
from assay.correctness import tested
from assay.correctness.case_result import run_case
from assay.correctness.cases import CaseGenerator
from assay.correctness.failure import failure
from assay.correctness.probes import large
from assay.devices import Device

GPU = Device(kind="cuda", index=0, name="", memory_bytes=1 << 40)
SPEC = CaseGenerator(seed=0, count=1, quick=False, gpu=True).spec(
    batch=64, heads=32, length=1, head_dim=16, dtype="float16"
)


def planted_in(attention, monkeypatch):
    """A GPU by name only: 66 repetitions of 2,048 batch entries x heads are large enough here."""
    monkeypatch.setattr(large, "_ELEMENTS", 66 * 64 * 32 * 16 - 1)
    monkeypatch.setattr(Device, "label", "cpu")
    here = replace(host.inspect(commit=False), devices=(GPU,))
    implementation = Implementation(name="planted", attention=attention)
    return tested.TestedImplementation(implementation=implementation, host=here, device="cpu")


def ends_at(count, error):
    def attention(q, k, v, *, causal, scale):
        if q.shape[0] * q.shape[1] >= count:
            raise error
        return eager.attention(q, k, v, causal=causal, scale=scale)

    return attention


def test_a_grid_that_ends_is_named_with_a_case_of_its_own(monkeypatch):
    """A public kernel fails from 65,536 rows on; the check named a case of one query and one key,
    which is right, and no cause."""
    error = RuntimeError("Triton Error [CUDA]: invalid argument")
    planted = planted_in(ends_at(65_536, error), monkeypatch)
    result = run_case(planted, large, SPEC)
    measured = failure(planted, "large", large, [result], [])
    assert "raises RuntimeError: Triton Error [CUDA]: invalid argument" in measured.reason
    assert "smallest failing case b65536_h1_kv1_q1_k1_d16" in measured.reason
    assert measured.workload.spec["batch"] == 65_536
    assert "grid counts batch entries x heads" in measured.cause and "65,535" in measured.cause


def test_what_raises_elsewhere_is_no_grid(monkeypatch):
    planted = planted_in(ends_at(100_000, RuntimeError("another limit")), monkeypatch)
    measured = failure(planted, "large", large, [run_case(planted, large, SPEC)], [])
    assert measured.reason.startswith("raises RuntimeError: another limit")
    assert measured.cause is None and "b64_h32" in measured.reason


def test_what_takes_them_holds(monkeypatch):
    assert run_case(planted_in(eager.attention, monkeypatch), large, SPEC).status == "ok"
