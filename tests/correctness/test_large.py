"""More elements than an index of 32 bits counts, more rows than an axis of a grid counts."""

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from assay import host
from assay.attention.contract import Implementation
from assay.attention.sequence import eager
from assay.correctness import suite, tested
from assay.correctness.case_result import run_case
from assay.correctness.cases import CaseGenerator
from assay.correctness.failure import failure
from assay.correctness.probes import accuracy, large
from assay.correctness.verdict import Verdict
from assay.devices import Device
from assay.frameworks.torch import device_lost
from assay.records.check_answer import check_answer
from assay.records.schema import Measurement
from assay.subjects.outcome import outcome_of
from assay.workloads.spec import parse

GPU = Device(kind="cuda", index=0, name="", memory_bytes=1 << 40)
GENERATOR = CaseGenerator(seed=0, count=2, quick=False, gpu=True, dtypes=("float16",))
ROWS, QUERIES, KEYS = large.cases(GENERATOR)
REFUSED = RuntimeError("Triton Error [CUDA]: invalid argument")  # as Triton's launcher raises it


class AcceleratorError(RuntimeError):
    """As torch 2.11 raises what CUDA's runtime says."""


CONFIGURATION = AcceleratorError("CUDA error: invalid configuration argument\nSearch for ...")


@pytest.fixture
def planted(monkeypatch):
    """A GPU by name only, with indices of few bits: 70,000 x 16 elements are large enough here."""
    monkeypatch.setattr(large, "_ELEMENTS", 70_000 * 16)
    monkeypatch.setattr(Device, "label", "cpu")
    here = replace(host.inspect(commit=False), devices=(GPU,))

    def made(attention):
        implementation = Implementation(name="planted", attention=attention)
        return tested.TestedImplementation(implementation=implementation, host=here, device="cpu")

    return made


def refusing(error, *, beyond=65_535, wrong=lambda q, out: out):
    """Attention of which a launch is refused where an axis counts too many rows."""

    def attention(q, k, v, *, causal, scale):
        if q.shape[0] * q.shape[1] > beyond:
            raise error
        return wrong(q, eager.attention(q, k, v, causal=causal, scale=scale))

    return attention


def verdict(kernel, *probes):
    events = suite.run(
        kernel, {p.__name__.rpartition(".")[2]: p for p in probes}, GENERATOR, budget_s=60
    )
    return Verdict(
        name="planted", measurements=tuple(e for e in events if isinstance(e, Measurement))
    )


@pytest.mark.parametrize("error", [REFUSED, CONFIGURATION], ids=["driver", "runtime"])
def test_a_grid_that_ends_is_a_limit_with_the_line_that_declares_it(error, planted):
    """Every sound kernel whose grid counts batch x heads on its second axis FAILED."""
    judged = verdict(planted(refusing(error)), large)
    assert judged, judged
    assert "no more than 65,535 batch entries x heads" in judged.limits
    assert "to declare it: LIMITS = {'batch_heads': 65535}" in judged.limits
    assert check_answer("planted", judged.measurements).word == "PASS"


def test_a_wrong_value_stands_before_a_refused_launch(planted):
    """In three of eight wrong kernels the launch error stood in the first line."""
    doubled = refusing(REFUSED, wrong=lambda q, out: out * 1.5)
    judged = verdict(planted(doubled), accuracy, large)
    (line,) = check_answer("planted", judged.measurements).lines
    assert line.startswith("FAIL") and "argument" not in line
    assert "batch_heads" in judged.limits


def test_without_a_search_the_case_is_unsupported_and_a_wrong_value_fails(planted):
    sound = run_case(planted(refusing(REFUSED)), large, ROWS)
    assert sound.status == "unsupported" and "LIMITS = {'batch_heads': 65535}" in sound.reason
    last = refusing(REFUSED, wrong=lambda q, out: torch.cat([out[:-2], 2 * out[-2:]]))
    assert run_case(planted(last), large, ROWS).status == "failed"


def test_what_is_refused_below_the_end_too_fails(planted):
    """Only a launch that is taken one entry below is one of a grid that ends."""
    result = run_case(planted(refusing(REFUSED, beyond=60_000)), large, ROWS)
    assert result.status == "failed" and "invalid argument" in result.reason


@pytest.mark.parametrize("case", [QUERIES, KEYS], ids=["queries", "keys"])
def test_an_index_that_wraps_around_fails(case, planted):
    """Far elements are read where near ones lie."""

    def wrapped(q, out):
        flat = out.reshape(-1).clone()
        beyond = flat.numel() - large._ELEMENTS
        near = flat[:beyond].clone() if beyond > 0 else flat[-64:].flip(0)
        flat[-len(near) :] = near
        return flat.view_as(out)

    kernel = planted(refusing(REFUSED, beyond=1 << 30, wrong=wrapped))
    measured = failure(kernel, "large", large, [run_case(kernel, large, case)], [])
    assert measured.status == "failed" and "batch entries from" in measured.reason
    sound = planted(eager.attention)
    assert run_case(sound, large, case).status == "ok"


def test_rows_that_wrap_around_fail(planted):
    """A row number of 16 bits: rows from 65,536 on get what the first ones have."""

    def wrapped(q, out):
        return torch.cat([out[:65_536], out[: max(0, len(out) - 65_536)]])

    result = run_case(planted(refusing(REFUSED, beyond=1 << 30, wrong=wrapped)), large, ROWS)
    assert result.status == "failed" and "beyond 65,535" in result.cause


def test_other_errors_fail(planted):
    error = RuntimeError("another limit")
    result = run_case(planted(refusing(error)), large, ROWS)
    assert result.status == "failed" and result.reason == "raises RuntimeError: another limit"


def test_what_takes_them_holds(planted):
    assert run_case(planted(eager.attention), large, ROWS).status == "ok"


def test_a_kernel_that_is_never_launched_is_not_run(planted):
    """No launch was taken, so no value is wrong: exit 3, not 1."""
    judged = verdict(planted(refusing(REFUSED, beyond=0)), accuracy)
    (line,) = check_answer("planted", judged.measurements).lines
    assert line.startswith("NOT RUN") and "every launch is refused (RuntimeError: Triton" in line


def test_a_launch_that_is_refused_at_some_lengths_alone_fails(planted):
    """It is no grid that ends: a case of few rows is refused where others are not."""

    def attention(q, k, v, *, causal, scale):
        if q.shape[2] == 7:
            raise REFUSED
        return eager.attention(q, k, v, causal=causal, scale=scale)

    spec = replace(GENERATOR.spec(length=7), head_dim=16)
    assert run_case(planted(attention), accuracy, spec).status == "failed"


def test_a_named_workload_beyond_the_axis_is_unsupported_in_a_bench():
    spec = parse("b70000_h1_s1_d16", defaults=GENERATOR.spec())
    measured = outcome_of(REFUSED, subject="mine", metric="accuracy", workload=spec)
    assert measured.status == "unsupported" and "'batch_heads': 65535" in measured.reason
    inside = outcome_of(REFUSED, subject="mine", metric="accuracy", workload=GENERATOR.spec())
    assert inside.status == "failed"


def test_a_refused_launch_leaves_the_device_as_it_was():
    lost = AcceleratorError("CUDA error: an illegal memory access was encountered")
    assert device_lost(lost) and not device_lost(CONFIGURATION)
