"""Rates of computing and reading, and their shares of what the same run reached on its machine.

FLOPs and bytes are those of the formula (`forward_flops`, `forward_bytes` and so on), so two
subjects that answer the same question are held to the same work, whatever each really did.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from assay.records.schema import Record, WorkloadIdentity

# The passes that a metric times.
DIRECTIONS = {
    "latency_ms": ("forward",),
    "graph_ms": ("forward",),
    "device_ms": ("forward",),
    "backward_ms": ("backward",),
    "training_ms": ("forward", "backward"),
}
COMPUTE_BOUND, MEMORY_BOUND = "compute-bound", "memory-bound"
_MOST_CREDIBLE_SHARE = 1.05
_HOST_STAGE = "host"
MATMUL, READ = "matmul_rate", "read_bandwidth"
_UNITS = {MATMUL: 1e12, READ: 1e9}
# A matmul ceiling is measured in the dtype that the device is mostly used with.
MATMUL_DTYPES = {"cpu": ("float32",), "cuda": ("bfloat16", "float16")}


# A number, or the reason why there is none.
Quantity = float | str


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Rates of one timed record, over the median of its samples; `reason` explains what is None."""

    batches_per_s: float | None  # calls
    tokens_per_s: float | None  # batch * query_length
    tflops: float | None
    gbps: float | None
    intensity: float | None  # FLOP per byte
    compute_share: float | None  # of the measured matmul rate
    memory_share: float | None  # of the measured read bandwidth
    bound: str | None  # the ceiling that applies at this intensity
    reason: str | None
    suspect: str | None  # a sentence, where a share is beyond belief

    @property
    def share(self) -> float | None:
        """Share of the ceiling that applies; None where none is known to."""
        if self.bound is None:
            return None
        return self.compute_share if self.bound == COMPUTE_BOUND else self.memory_share


def rates(records: Sequence[Record]) -> dict[int, Rate]:
    """The rate of every timed record that is ok and has samples, by the record's `id`."""
    ceilings = _Ceilings(records)
    work = {
        (_owner(record), record.metric): record
        for record in records
        if record.metric.endswith(("_flops", "_bytes"))
    }
    return {
        id(record): _rate(record, record.workload, work, ceilings)
        for record in records
        if record.metric in DIRECTIONS
        and record.status == "ok"
        and record.samples
        and record.workload
    }


# Work is keyed by the cell and the subject of its record, and its metric.
_Owner = tuple[str, str, str, str, str]
_Work = dict[tuple[_Owner, str], Record]


def _owner(record: Record) -> _Owner:
    return record.run, record.host, record.stage, record.cell, record.subject


class _Ceilings:
    """The measured ceilings among some records, by run and host."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records: dict[tuple[str, str, str], list[Record]] = {}
        for record in records:
            if record.stage == _HOST_STAGE and record.metric in _UNITS:
                key = (record.run, record.host, record.metric)
                self._records.setdefault(key, []).append(record)

    def compute(self, of: Record, *, dtype: str) -> Quantity:
        """FLOP per second that the device of a record's run reached in matrix products."""
        best = self._best(of, MATMUL)
        if isinstance(best, str):
            return best
        dtypes = MATMUL_DTYPES.get(best.subject.partition(":")[0], ())
        if dtype not in dtypes:
            names = " and ".join(dtypes) or "no dtype that is known"
            return f"the {MATMUL} of {best.subject} holds for {names}, not for {dtype}"
        return best.value * _UNITS[MATMUL]

    def reading(self, of: Record) -> Quantity:
        """Bytes per second that the device of a record's run reached in reading."""
        best = self._best(of, READ)
        return best if isinstance(best, str) else best.value * _UNITS[READ]

    def _best(self, of: Record, metric: str) -> Record | str:
        """The highest record of a ceiling, or the reason why none surely applies."""
        records = self._records.get((of.run, of.host, metric), [])
        measured = [record for record in records if record.status == "ok" and record.value]
        if not measured:
            reason = next((record.reason for record in records if record.reason), None)
            return f"no {metric} of this machine: {reason or 'add host to STAGES'}"
        devices = sorted({record.subject for record in measured})
        if len(devices) > 1:
            names = ", ".join(devices)
            return f"the run has a {metric} of several devices ({names}) and names none of them"
        return max(measured, key=lambda record: record.value)


def _rate(record: Record, workload: WorkloadIdentity, work: _Work, ceilings: _Ceilings) -> Rate:
    elapsed = median(record.samples) / 1e3 or "the elapsed time is zero"
    tokens = _tokens(workload)
    flops, traffic = (_amount(record, quantity, work) for quantity in ("flops", "bytes"))
    compute = ceilings.compute(record, dtype=str(workload.spec.get("dtype")))
    reading = ceilings.reading(record)
    flop_rate, byte_rate = _ratio(flops, elapsed), _ratio(traffic, elapsed)
    compute_share, memory_share = _ratio(flop_rate, compute), _ratio(byte_rate, reading)
    intensity = _ratio(flops, traffic)
    quantities = (elapsed, tokens, flops, traffic, compute, reading)
    reasons = dict.fromkeys(each for each in quantities if isinstance(each, str))
    return Rate(
        batches_per_s=_ratio(1.0, elapsed),
        tokens_per_s=_ratio(tokens, elapsed),
        tflops=_ratio(flop_rate, 1e12),
        gbps=_ratio(byte_rate, 1e9),
        intensity=intensity,
        compute_share=compute_share,
        memory_share=memory_share,
        bound=_bound(intensity, _ratio(compute, reading)),
        reason="; ".join(reasons) or None,
        suspect="; ".join(_too_fast(compute_share, memory_share)) or None,
    )


def _tokens(workload: WorkloadIdentity) -> Quantity:
    sizes = [workload.spec.get(name) for name in ("batch", "query_length")]
    if not all(isinstance(size, int) for size in sizes):
        return "the workload does not give its batch and query_length"
    return float(sizes[0] * sizes[1])


def _amount(record: Record, quantity: str, work: _Work) -> Quantity:
    """FLOPs or bytes of what a record timed, from the records of its cell and subject."""
    total = 0.0
    for direction in DIRECTIONS[record.metric]:
        metric = f"{direction}_{quantity}"
        amount = work.get((_owner(record), metric))
        if amount is None:
            return f"no {metric} in this cell; add work to PROBES"
        if amount.value is None:
            return f"{metric}: {amount.reason}"
        total += amount.value
    return total


def _ratio(above: Quantity | None, below: Quantity | None) -> float | None:
    """One over the other; None where one of them is not known, or the other is zero."""
    if isinstance(above, str) or isinstance(below, str) or above is None or not below:
        return None
    return above / below


def _bound(intensity: float | None, ridge: float | None) -> str | None:
    """The ceiling that applies (Williams, Waterman and Patterson, "Roofline", 2009): the ridge is
    where both ceilings meet."""
    if intensity is None or ridge is None:
        return None
    return COMPUTE_BOUND if intensity >= ridge else MEMORY_BOUND


def _too_fast(compute: float | None, memory: float | None) -> Iterator[str]:
    causes = "cached, not computed, or the ceiling is wrong"
    for share, can in ((compute, "compute"), (memory, "read")):
        if share is not None and share > _MOST_CREDIBLE_SHARE:
            yield f"{share:.2f} times what this machine can {can}: {causes}"
