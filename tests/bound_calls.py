"""Implementations, ours or written by a test, bound to a workload given in words."""

from pathlib import Path

from assay import host
from assay.captures.inputs import make
from assay.records.schema import Measurement
from assay.subjects.sequence import SequenceSubject, bind
from assay.workloads.spec import WorkloadSpec, parse

DEFAULTS = WorkloadSpec(
    batch=1, heads=2, kv_heads=2, query_length=64, key_length=64, head_dim=32, dtype="float32",
    causal=True, seed=0,
)  # fmt: skip


def bound(name: str | Path, workload: str, device: str = "cpu") -> SequenceSubject:
    spec = parse(workload, defaults=DEFAULTS)
    return bind(str(name), make(spec), host=host.inspect(), device=device)


def probed(probe, call: SequenceSubject) -> dict[str, Measurement]:
    """What a probe says, by metric; no metric twice."""
    measurements = probe.measure(call, call.workload, call.host)
    assert len({m.metric for m in measurements}) == len(measurements)
    return {m.metric: m for m in measurements}


def written(folder: Path, name: str, body: str, head: str = "") -> Path:
    """A file with an implementation, whose function has this body."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    text = f'"""A test."""\nimport torch\nfrom assay.attention.sequence import eager\n{head}\n\n'
    path = folder / f"{name}.py"
    path.write_text(f"{text}def attention(q, k, v, *, causal, scale):\n{lines}\n")
    return path
