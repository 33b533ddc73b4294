"""A function written in JAX is timed as the program that its users run, jitted or not."""

from pathlib import Path

import pytest

pytest.importorskip("jax")

from bound_calls import DEFAULTS, bound

from assay import host
from assay.performance.cell import CellRequest, run
from assay.performance.rounds import RoundSettings
from assay.records.schema import Measurement
from assay.workloads.spec import parse

PLAIN = '''
"""Attention in JAX, without jax.jit."""
import jax, jax.numpy as jnp
FRAMEWORK = "jax"
TRACED = []

def attention(q, k, v, *, causal, scale):
    TRACED.append(not isinstance(q, jax.core.Tracer))
    s = jnp.einsum("bhqd,bhkd->bhqk", q, k) * scale
    if causal:
        seen = jnp.tril(jnp.ones(s.shape[-2:], bool), s.shape[-1] - s.shape[-2])
        s = jnp.where(seen, s, -jnp.inf)
    return jax.nn.softmax(s, -1) @ v
'''.lstrip()


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    path = tmp_path / "plain.py"
    path.write_text(PLAIN)
    return path


def test_what_is_not_jitted_is_traced_once_and_gives_the_same(plain):
    subject = bound(plain, "b1_h2_s64_d32")
    program = subject.compiled()
    assert abs(program.numpy(program()) - subject.numpy(subject())).max() < 1e-6
    calls = subject.function.__globals__["TRACED"]
    calls.clear()
    program()
    assert not calls  # the program runs, not the lines of the file


def test_forward_is_not_slower_than_both_passes(plain):
    """Op by op, the forward pass took longer than the compiled training, and was not believed."""
    request = CellRequest(
        probes=("latency", "training"), workload=parse("h8_kv8", defaults=DEFAULTS),
        subjects=(str(plain), "jax_xla"), device="cpu", folders=[plain.parent],
        settings=RoundSettings(warmup=2, rounds=5),
    )  # fmt: skip
    measured = [m for m in run(request, host.inspect()) if isinstance(m, Measurement)]
    times = {
        (m.subject, m.metric): (m.value, m.reason)
        for m in measured
        if m.metric in ("latency_ms", "training_ms")
    }
    assert len(times) == 4 and all(value for value, _ in times.values()), times
