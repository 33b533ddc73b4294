"""The loop over implementations: pairing, and what each may do wrong without harming the others."""

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

from assay import host
from assay.performance.cell import CellRequest, run
from assay.performance.rounds import RoundSettings
from assay.records.schema import Measurement
from assay.subjects.outcome import Begin
from assay.workloads.spec import WorkloadSpec

SPEC = WorkloadSpec(
    batch=1, heads=2, kv_heads=2, query_length=17, key_length=33, head_dim=16, dtype="float32",
    causal=True, seed=0,
)  # fmt: skip
HEAD = '"""A test."""\nimport torch\nfrom assay.attention.sequence import eager\n\n\n'


def measured(folder: Path, *subjects: str, probe: str = "accuracy+gradients", **options):
    request = CellRequest(
        probes=tuple(probe.split("+")), workload=options.pop("workload", SPEC), subjects=subjects,
        device="cpu", settings=RoundSettings(warmup=2, rounds=5), folders=[folder], **options,
    )  # fmt: skip
    return list(run(request, host.inspect()))


def outcomes(items, subject):
    return {
        m.metric: (m.status, m.reason)
        for m in items
        if isinstance(m, Measurement) and m.subject == subject and m.status != "ok"
    }


def test_inputs_that_no_memory_holds_are_no_failure_of_a_kernel(tmp_path):
    beyond = replace(SPEC, batch=1000, heads=64, kv_heads=64, query_length=999_999_999)
    items = measured(tmp_path, "eager", workload=beyond)
    (outcome,) = (m for m in items if isinstance(m, Measurement) and m.subject == "eager")
    assert outcome.status == "oom", outcome


def write(folder: Path, name: str, body: str) -> str:
    signature = "def attention(q, k, v, *, causal, scale):\n    "
    (folder / f"{name}.py").write_text(HEAD + signature + body.replace("\n", "\n    ") + "\n")
    return name


WRONG = {
    "top_left": (
        "m, n = q.shape[2], k.shape[2]\n"
        "s = (q @ k.mT) * scale\n"
        "s = s.masked_fill(~torch.ones(m, n, dtype=bool).tril(), float('-inf'))\n"
        "return s.softmax(-1) @ v",
        "times what rounding explains",
    ),
    "no_grad": (
        "return eager.attention(q, k.detach(), v, causal=causal, scale=scale)",
        "no gradient arrives",
    ),
    "wide": (
        "return eager.attention(q, k, v, causal=causal, scale=scale).double()",
        "has dtype float64",
    ),
    "transposed": (
        "return eager.attention(q, k, v, causal=causal, scale=scale).transpose(1, 2)",
        "has shape",
    ),
    "nan": (
        "return eager.attention(q, k, v, causal=causal, scale=scale) * float('nan')",
        "not finite",
    ),
    "raises": ("raise RuntimeError('out of luck')", "RuntimeError: out of luck"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_implementation_is_named_and_the_next_one_goes_on(tmp_path, name):
    body, complaint = WRONG[name]
    items = measured(tmp_path, write(tmp_path, name, body), "sdpa")
    ended = outcomes(items, name)
    assert ended and all(status == "failed" for status, _ in ended.values())
    assert any(complaint in reason for _, reason in ended.values())
    assert not outcomes(items, "sdpa")


HAND_WRITTEN = Path(__file__).parents[1] / "planted" / "sound" / "hand_written_backward.py"
DO = {
    "reads_strides_of_out": (
        "grad = torch.as_strided(grad, out.shape, out.stride(), grad.storage_offset())",
        "failed",
    ),
    "wants_it_contiguous": ('assert grad.is_contiguous(), "dO must be contiguous"', "ok"),
}


@pytest.mark.parametrize("name", DO)
def test_a_timed_backward_is_sent_dO_as_models_lay_it_out(tmp_path, name):
    """A backward that reads dO with the strides of the output was timed: dO was contiguous. A
    backward that refuses any other dO is timed with that."""
    line, status = DO[name]
    (tmp_path / f"{name}.py").write_text(
        HAND_WRITTEN.read_text().replace(
            "        keys, values =", f"        {line}\n        keys, values =", 1
        )
    )
    items = measured(tmp_path, name, probe="gradients+backward")
    measurements = [m for m in items if isinstance(m, Measurement)]
    ended = {m.metric: m.status for m in measurements if m.subject == name}
    assert ended["error_over_budget_dq"] == status
    assert ("backward_ms" in ended) == (status == "ok")


def test_running_out_of_memory_is_its_own_outcome(tmp_path):
    name = write(tmp_path, "greedy", "return torch.empty(1 << 50)")
    (status, reason), *_ = outcomes(measured(tmp_path, name), name).values()
    assert status == "oom" and "allocate" in reason


def test_unsupported_is_said_in_the_implementations_own_words(tmp_path):
    name = write(tmp_path, "picky", "return q")
    with open(tmp_path / "picky.py", "a") as file:
        file.write("\n\ndef supports(spec, host):\n    return f'no head_dim {spec.head_dim}'\n")
    assert outcomes(measured(tmp_path, name), name) == {
        "accuracy+gradients": ("unsupported", "no head_dim 16")
    }


def test_prepare_is_called_once_with_shapes(tmp_path):
    name = write(tmp_path, "compiled", "raise AssertionError('prepare gives the function')")
    with open(tmp_path / "compiled.py", "a") as file:
        file.write(
            "\n\ndef prepare(spec):\n    assert spec.head_dim == 16\n    return eager.attention\n"
        )
    assert not outcomes(measured(tmp_path, name), name)


def test_a_plugin_that_fails_on_import_is_a_failure_to_load(tmp_path):
    name = write(tmp_path, "broken", "return q")
    with open(tmp_path / "broken.py", "a") as file:
        file.write("\nimport a_package_that_is_not_there\n")
    items = measured(tmp_path, name, "eager")
    assert outcomes(items, name)["load"][0] == "failed"
    assert not outcomes(items, "eager")


def test_a_probe_that_fails_on_import_is_a_failure_to_load(tmp_path):
    (tmp_path / "odd.py").write_text("def measure(call, workload, host):\n    pass\n\n1 / 0\n")
    items = measured(tmp_path, "eager", probe="odd")
    assert outcomes(items, "eager")["load"][0] == "failed"


def test_rounds_alternate_and_samples_are_paired(tmp_path):
    items = measured(tmp_path, "eager", "sdpa", probe="latency")
    order = [item.subject for item in items if isinstance(item, Begin)]
    # Loading both, warming up both, then rounds: forward, backward, forward, ...
    rounds = order[4:]
    assert rounds == ["eager", "sdpa", "sdpa", "eager"] * 2 + ["eager", "sdpa"]
    latency = {m.subject: m for m in items if getattr(m, "metric", "") == "latency_ms"}
    assert all(len(m.samples) == 5 and min(m.samples) > 0 for m in latency.values())
    assert {m.workload.content for m in latency.values()} == {latency["sdpa"].workload.content}


def test_a_users_probe_may_return_plain_dicts(tmp_path):
    (tmp_path / "answer.py").write_text(
        '"""Counts."""\n\n\ndef measure(call, workload, host):\n'
        "    assert call().shape == workload.q.shape and host.cores\n"
        "    return [{'metric': 'answer', 'value': 42.0, 'unit': 'count'}]\n"
    )
    items = measured(tmp_path, "eager", probe="answer")
    assert any(getattr(m, "metric", "") == "answer" and m.value == 42.0 for m in items)


def test_a_probe_that_returns_nonsense_is_told_so(tmp_path):
    (tmp_path / "nonsense.py").write_text(
        "def measure(call, workload, host):\n"
        "    return [{'metric': 'x', 'value': float('nan'), 'unit': ''}]\n"
    )
    ((status, reason),) = outcomes(measured(tmp_path, "eager", probe="nonsense"), "eager").values()
    assert status == "failed" and "not finite" in reason


def test_the_clock_stops_after_the_work_is_done(tmp_path):
    """A call that takes 20 ms is never timed as less."""
    name = write(
        tmp_path,
        "slow",
        "import time\ntime.sleep(0.02)\n"
        "return eager.attention(q, k, v, causal=causal, scale=scale)",
    )
    items = measured(tmp_path, name, "eager", probe="latency")
    samples = {m.subject: m.samples for m in items if getattr(m, "metric", "") == "latency_ms"}
    assert min(samples["slow"]) >= 20


def test_a_probe_that_measures_nothing_proves_nothing(tmp_path):
    (tmp_path / "silent.py").write_text("def measure(call, workload, host):\n    return []\n")
    ((status, reason),) = outcomes(measured(tmp_path, "eager", probe="silent"), "eager").values()
    assert status == "failed" and "returned none" in reason
