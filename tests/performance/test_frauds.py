"""Ways to a number that is too good, each of which is caught or cannot be gone."""

import time

import pytest

pytest.importorskip("torch")

from timed_files import PLAIN, ROUNDS, SPEC, assert_not_timed, timed

from assay import host, plugins
from assay.errors import BadInput
from assay.performance import rounds
from assay.performance.cell import CellRequest, run
from assay.performance.rounds import RoundSettings
from assay.records.schema import Measurement
from assay.studies import kconfig


def test_work_that_goes_on_after_the_call_returned(tmp_path):
    source = PLAIN + (
        "def attention(q, k, v, *, causal, scale):\n"
        "    out = torch.zeros_like(q)\n"
        "    def later():\n"
        "        time.sleep(0.05)\n"
        "        out.copy_(eager.attention(q, k, v, causal=causal, scale=scale))\n"
        "    threading.Thread(target=later).start()\n"
        "    return out\n"
    )
    assert_not_timed(timed(tmp_path, source), "not finished when the clock stopped")


@pytest.mark.parametrize("slow_calls", [(1,), (1, 2, 3)])
def test_compiling_is_not_among_the_samples(tmp_path, slow_calls):
    source = PLAIN + (
        "calls = []\n"
        "def attention(q, k, v, *, causal, scale):\n"
        "    calls.append(1)\n"
        f"    if len(calls) in {slow_calls}: time.sleep(0.5)\n"
        "    return eager.attention(q, k, v, causal=causal, scale=scale)\n"
    )
    measured = timed(tmp_path, source)
    assert measured["first_call_ms"].value >= 500
    assert max(measured["latency_ms"].samples) < 500


def test_caches_are_emptied_before_every_call(tmp_path, monkeypatch):
    from assay.frameworks import torch as framework

    flushed = []
    monkeypatch.setattr(framework, "flusher", lambda device: lambda: flushed.append(1) or "counted")
    measured = timed(tmp_path, PLAIN + "attention = eager.attention\n")
    calls = len(measured["latency_ms"].samples) + len(measured["latency_ms.warmup"].samples)
    of_peer = len(measured["latency_ms"].samples)  # at least: its warm-up has a length of its own
    assert len(flushed) >= calls + of_peer and "counted" in measured["latency_ms"].source


def test_a_backend_that_is_declared_and_does_not_run(tmp_path):
    source = PLAIN + 'KERNELS = {"cpu": "flash_attention"}\nattention = eager.attention\n'
    measured = timed(tmp_path, source, probes="kernels+latency")
    assert_not_timed(measured, "flash_attention", metric="kernels")


def test_a_baseline_that_copies_keys_and_values_first(tmp_path):
    source = PLAIN + (
        "def attention(q, k, v, *, causal, scale):\n"
        "    k, v = (x.repeat_interleave(2, dim=1) for x in (k, v))\n"
        "    return eager.attention(q, k, v, causal=causal, scale=scale)\n"
    )
    measured = timed(tmp_path, source, probes="kernels+latency")
    expanded = 2 * 64 * 16 * 4  # heads, keys, head_dim, bytes
    assert measured["input_copy_bytes"].value == 2 * expanded


PRECOMPUTED = {
    "from the seed": (
        "from dataclasses import replace\n"
        "from assay.captures.inputs import make\n"
        "def attention(q, k, v, *, causal, scale):\n"
        "    return eager.attention(q, k, v, causal=causal, scale=scale)\n"
        "def prepare(spec):\n"
        "    w = make(replace(spec, seed=5))\n"
        "    q, k, v = (torch.from_numpy(a) for a in (w.q, w.k, w.v))\n"
        "    answer = eager.attention(q, k, v, causal=spec.causal, scale=spec.scale)\n"
        "    return lambda q, k, v, **options: answer\n"
    ),
    "from the first call": (
        "kept = {}\n"
        "def attention(q, k, v, *, causal, scale):\n"
        "    if q.data_ptr() not in kept:\n"
        "        kept[q.data_ptr()] = eager.attention(q, k, v, causal=causal, scale=scale)\n"
        "    return kept[q.data_ptr()]\n"
    ),
}


@pytest.mark.parametrize("source", PRECOMPUTED.values(), ids=PRECOMPUTED)
def test_an_answer_that_was_made_beforehand(tmp_path, source):
    assert_not_timed(timed(tmp_path, PLAIN + source), "made beforehand")


def test_what_prepares_a_call_does_not_learn_the_seed(tmp_path):
    source = PLAIN + (
        "attention = eager.attention\n"
        "def prepare(spec):\n"
        "    assert spec.seed == 0, 'the seed is known'\n"
        "    return attention\n"
    )
    assert timed(tmp_path, source)["latency_ms"].status == "ok"


ZEROED = (
    "calls = []\n"
    "def attention(q, k, v, *, causal, scale):\n"
    "    calls.append(1)\n"
    "    out = eager.attention(q, k, v, causal=causal, scale=scale)\n"
    "    if len(calls) == WHEN: k.zero_()\n"
    "    return out\n"
)


def test_inputs_that_are_made_easy(tmp_path):
    """Zeros are faster on some hardware. The others of the cell get their inputs back."""
    measured = timed(tmp_path, PLAIN + ZEROED.replace("WHEN", "2"))
    assert_not_timed(measured, "it writes into its inputs")


def test_inputs_that_are_changed_while_checked(tmp_path):
    """Found by the probe it happened in, and the others of the cell get their inputs back."""
    source = PLAIN + ZEROED.replace("WHEN", "2")
    measured = timed(tmp_path, source, probes="accuracy+latency", name="aaa")
    assert (
        measured["accuracy"].status == "failed"
        and "writes into its inputs" in measured["accuracy"].reason
    )
    assert measured["latency"].status == "refused" and "latency_ms" not in measured


def test_inputs_that_are_made_easy_later(tmp_path, monkeypatch):
    """Every turn has inputs of its own, so the others keep their times."""
    monkeypatch.setattr(rounds, "_is_warm", lambda samples, least: len(samples) == 6)
    (tmp_path / "late.py").write_text('"""A test."""\n' + PLAIN + ZEROED.replace("WHEN", "9"))
    request = CellRequest(
        probes=("latency",), workload=SPEC, subjects=("eager", "late"), device="cpu",
        settings=RoundSettings(warmup=2, rounds=ROUNDS), folders=[tmp_path],
    )  # fmt: skip
    items = [item for item in run(request, host.inspect()) if isinstance(item, Measurement)]
    assert [item.subject for item in items if item.metric == "latency_ms"] == ["eager"]
    assert {m.subject for m in items if m.status == "failed"} == {"late"}


def test_what_is_timed_is_given_numbers_that_are_not_all_alike(tmp_path):
    source = PLAIN + (
        "def attention(q, k, v, *, causal, scale):\n"
        "    assert q.std() > 0.5 and k.std() > 0.5 and v.std() > 0.5\n"
        "    return eager.attention(q, k, v, causal=causal, scale=scale)\n"
    )
    assert timed(tmp_path, source)["latency_ms"].status == "ok"


def test_no_sample_is_left_out(tmp_path):
    source = PLAIN + (
        "calls = []\n"
        "def attention(q, k, v, *, causal, scale):\n"
        "    calls.append(1)\n"
        "    if len(calls) % 5 == 0: time.sleep(0.03)\n"
        "    return eager.attention(q, k, v, causal=causal, scale=scale)\n"
    )
    samples = timed(tmp_path, source)["latency_ms"].samples
    assert len(samples) == ROUNDS
    assert sum(sample >= 30 for sample in samples) >= ROUNDS // 5


def test_one_sample_is_refused():
    with pytest.raises(BadInput, match="ROUNDS"):
        kconfig.load(None, ["ROUNDS=1"])


class Unfinished:
    """A result whose work goes on after the call, as JAX's does."""

    finished = False

    def block_until_ready(self):
        time.sleep(0.02)
        self.finished = True


@pytest.mark.parametrize("name", plugins.listing("frameworks"))
def test_the_clocks_see_all_of_the_work(name):
    plugin = plugins.find("frameworks", name)
    if plugin.missing:
        pytest.skip(f"{name} is not installed")
    start = time.perf_counter()
    elapsed_ms, result = plugins.load(plugin).clock("cpu").time(lambda: time.sleep(0.02))
    assert 20 <= elapsed_ms <= (time.perf_counter() - start) * 1e3 and result is None


def test_jax_is_waited_for():
    pytest.importorskip("jax")
    from assay.frameworks.jax import timing

    elapsed_ms, result = timing.clock("cpu").time(Unfinished)
    assert result.finished and elapsed_ms >= 20
