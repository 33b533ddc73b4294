"""The strongest peer that a user would pick was timed in the same run, in each of its dtypes."""

from collections import defaultdict

from assay.verify.compared import ComparedRun, RunComparison
from assay.verify.finding import CheckFinding, fails, holds, not_tested

# By kind of device; a name of a decode kernel stands behind its layout, dense:sdpa_cudnn.
STRONGEST = {
    "cuda": ("sdpa_cudnn", "flash_attn", "flash_attn_cute", "jax_cudnn", "flashinfer", "cudnn"),
    "cpu": ("sdpa", "sdpa_flash", "jax_xla"),
}
# None of those of a GPU takes float32; these are torch's choice there, and CUTLASS's kernels.
STRONGEST_FLOAT32 = {"cuda": ("sdpa", "sdpa_efficient", "xformers")}


def look(comparison: RunComparison) -> list[CheckFinding]:
    return [
        finding
        for run in comparison.runs
        if run.of("latency_ms") and run.run.devices
        for finding in _of(run)
    ]


def _of(run: ComparedRun) -> list[CheckFinding]:
    timed: dict[str | None, set[str]] = defaultdict(set)
    for record in run.of("latency_ms"):
        if record.value is not None:
            timed[record.workload.spec.get("dtype") if record.workload else None].add(
                record.subject
            )
    return [_of_dtype(run, dtype, timed[dtype]) for dtype in sorted(timed or [None], key=str)]


def _of_dtype(run: ComparedRun, dtype: str | None, subjects: set[str]) -> CheckFinding:
    kind = (run.run.devices or ["cpu"])[0].partition(":")[0]
    name = f"{run.name} in {dtype}" if dtype else run.name
    if kind not in STRONGEST:
        return not_tested(f"{name}: no strongest peer is known on {kind}")
    own = STRONGEST_FLOAT32 if dtype == "float32" and kind in STRONGEST_FLOAT32 else STRONGEST
    peers = sorted(s for s in subjects if s.rpartition(":")[2] in own[kind])
    if peers:
        return holds(f"{name}: timed beside {', '.join(peers)}")
    wanted = ", ".join(own[kind])
    return fails(f"{name}: none of the strongest peers on {kind} was timed ({wanted})")
