"""The strongest peer that a user would pick was timed in the same run."""

from assay.verify.compared import ComparedRun, RunComparison
from assay.verify.finding import CheckFinding, fails, holds, not_tested

# By kind of device; a name of a decode kernel stands behind its layout, dense:sdpa_cudnn.
STRONGEST = {
    "cuda": ("sdpa_cudnn", "flash_attn", "flash_attn_cute", "jax_cudnn", "flashinfer", "cudnn"),
    "cpu": ("sdpa", "sdpa_flash", "jax_xla"),
}


def look(comparison: RunComparison) -> list[CheckFinding]:
    return [_of(run) for run in comparison.runs if run.of("latency_ms") and run.run.devices]


def _of(run: ComparedRun) -> CheckFinding:
    kind = (run.run.devices or ["cpu"])[0].partition(":")[0]
    timed = {r.subject for r in run.of("latency_ms") if r.value is not None}
    peers = sorted(s for s in timed if s.rpartition(":")[2] in STRONGEST.get(kind, ()))
    if peers:
        return holds(f"{run.name}: timed beside {', '.join(peers)}")
    if kind not in STRONGEST:
        return not_tested(f"{run.name}: no strongest peer is known on {kind}")
    wanted = ", ".join(STRONGEST[kind])
    return fails(f"{run.name}: none of the strongest peers on {kind} was timed ({wanted})")
