"""Files with an implementation, timed beside eager as a cell does it."""

from pathlib import Path

from assay import host
from assay.performance.cell import CellRequest, run
from assay.performance.rounds import RoundSettings
from assay.records.schema import Measurement
from assay.workloads.spec import WorkloadSpec

SPEC = WorkloadSpec(
    batch=1, heads=2, kv_heads=1, query_length=64, key_length=64, head_dim=16, dtype="float32",
    causal=True, seed=5,
)  # fmt: skip
ROUNDS = 12
PLAIN = "from assay.attention.sequence import eager\nimport torch, time, threading\n"


def timed(
    folder: Path, source: str, *, probes: str = "latency", name: str = "fraud", rounds: int = ROUNDS
) -> dict[str, Measurement]:
    """All measurements of a file by metric; eager beside it has a time."""
    (folder / f"{name}.py").write_text(f'"""A test."""\n{source}')
    request = CellRequest(
        probes=tuple(probes.split("+")), workload=SPEC, subjects=(name, "eager"), device="cpu",
        settings=RoundSettings(warmup=2, rounds=rounds), folders=[folder],
    )  # fmt: skip
    items = [item for item in run(request, host.inspect()) if isinstance(item, Measurement)]
    assert any(m.subject == "eager" and m.metric.endswith("_ms") and m.samples for m in items)
    return {m.metric: m for m in items if m.subject == name}


def assert_not_timed(measured: dict[str, Measurement], words: str, metric: str = "latency") -> None:
    """The measurement failed for this reason, and there is no time."""
    times = [m for m in measured.values() if m.metric in ("latency_ms", "training_ms")]
    assert all(m.status == "failed" for m in times), times
    assert measured[metric].status == "failed" and words in measured[metric].reason, measured
