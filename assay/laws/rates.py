"""How fast a subject computed and read, and which share that is of what its machine reached.

FLOPs and bytes are those of the formula (`forward_flops`, `forward_bytes` and so on), so two
subjects that answer the same question are held to the same work, whatever each really did.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from assay.laws.ceilings import Ceilings, Known
from assay.records.schema import Record, WorkloadIdentity

# Which passes a metric times.
DIRECTIONS = {
    "latency_ms": ("forward",),
    "graph_ms": ("forward",),
    "device_ms": ("forward",),
    "backward_ms": ("backward",),
    "training_ms": ("forward", "backward"),
}
COMPUTE_BOUND, MEMORY_BOUND = "compute-bound", "memory-bound"
_MOST_CREDIBLE_SHARE = 1.05


@dataclass(frozen=True, kw_only=True)
class Rate:
    """One timed metric of one subject on one workload; `reason` says why something is None."""

    subject: str
    stage: str
    workload: WorkloadIdentity
    metric: str
    elapsed_ms: float  # median of the samples
    tokens_per_s: float | None  # batch * query_length
    tflops: float | None
    gbps: float | None
    intensity: float | None  # FLOP per byte
    compute_share: float | None  # of the measured matmul rate
    memory_share: float | None  # of the measured read bandwidth
    bound: str | None  # which ceiling the intensity says applies
    reason: str | None
    suspect: str | None  # words, where a share cannot be


def rates(records: Sequence[Record]) -> list[Rate]:
    """The rate of every timed record that is ok and has samples, in their order."""
    ceilings = Ceilings(records)
    work = {
        (_owner(record), record.metric): record
        for record in records
        if record.metric.endswith(("_flops", "_bytes"))
    }
    return [
        _rate(record, record.workload, work, ceilings)
        for record in records
        if record.metric in DIRECTIONS
        and record.status == "ok"
        and record.samples
        and record.workload
    ]


# What work is keyed by: the cell and the subject of its record, and its metric.
_Owner = tuple[str, str, str, str, str]
_Work = dict[tuple[_Owner, str], Record]


def _owner(record: Record) -> _Owner:
    return record.run, record.host, record.stage, record.cell, record.subject


def _rate(record: Record, workload: WorkloadIdentity, work: _Work, ceilings: Ceilings) -> Rate:
    elapsed_ms = median(record.samples)
    elapsed = Known(value=elapsed_ms / 1e3 or None, reason="the elapsed time is zero")
    tokens = _tokens(workload)
    flops, traffic = (_amount(record, quantity, work) for quantity in ("flops", "bytes"))
    compute = ceilings.compute(record, dtype=str(workload.spec.get("dtype")))
    reading = ceilings.reading(record)
    flop_rate, byte_rate = _ratio(flops, elapsed), _ratio(traffic, elapsed)
    shares = _ratio(flop_rate, compute), _ratio(byte_rate, reading)
    intensity = _ratio(flops, traffic)
    found = (elapsed, tokens, flops, traffic, compute, reading)
    reasons = dict.fromkeys(one.reason for one in found if one.value is None)
    return Rate(
        subject=record.subject,
        stage=record.stage,
        workload=workload,
        metric=record.metric,
        elapsed_ms=elapsed_ms,
        tokens_per_s=_ratio(tokens, elapsed).value,
        tflops=_in(flop_rate, 1e12),
        gbps=_in(byte_rate, 1e9),
        intensity=intensity.value,
        compute_share=shares[0].value,
        memory_share=shares[1].value,
        bound=_bound(intensity, _ratio(compute, reading)),
        reason="; ".join(str(reason) for reason in reasons) or None,
        suspect="; ".join(_too_fast(*shares)) or None,
    )


def _tokens(workload: WorkloadIdentity) -> Known:
    sizes = [workload.spec.get(name) for name in ("batch", "query_length")]
    if not all(isinstance(size, int) for size in sizes):
        return Known(value=None, reason="the workload does not say its batch and query_length")
    return Known(value=float(sizes[0] * sizes[1]))


def _amount(record: Record, quantity: str, work: _Work) -> Known:
    """FLOPs or bytes of what a record timed, from the records of its cell and subject."""
    total = 0.0
    for direction in DIRECTIONS[record.metric]:
        metric = f"{direction}_{quantity}"
        found = work.get((_owner(record), metric))
        if found is None:
            return Known(value=None, reason=f"no {metric} in this cell; add work to PROBES")
        if found.value is None:
            return Known(value=None, reason=f"{metric}: {found.reason}")
        total += found.value
    return Known(value=total)


def _ratio(above: Known, below: Known) -> Known:
    for one in (above, below):
        if one.value is None:
            return one
    if not below.value:
        return Known(value=None, reason="nothing is divided by zero")
    return Known(value=above.value / below.value)  # type: ignore[operator]


def _in(known: Known, unit: float) -> float | None:
    return None if known.value is None else known.value / unit


def _bound(intensity: Known, ridge: Known) -> str | None:
    """Williams, Waterman and Patterson, "Roofline", 2009: the ridge is where both ceilings meet."""
    if intensity.value is None or ridge.value is None:
        return None
    return COMPUTE_BOUND if intensity.value >= ridge.value else MEMORY_BOUND


def _too_fast(compute: Known, memory: Known) -> Iterator[str]:
    causes = "cached, not computed, or the ceiling is wrong"
    for share, can in ((compute, "compute"), (memory, "read")):
        if share.value is not None and share.value > _MOST_CREDIBLE_SHARE:
            yield f"{share.value:.2f} times what this machine can {can}: {causes}"
