"""What was measured and counted of a pass as records: times, ratios to the baseline, what the
counted work predicts, and how far the two are apart."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from _model_cost.subjects import BASELINE
from _model_cost.work import Machine, Operation
from assay.records.schema import Measurement

NEEDED = "bytes of all weights but the position embedding, and of the cache"
MODEL = "sum over operators of the longer of FLOPs / matmul_rate and bytes / copy_bandwidth"


@dataclass(frozen=True, kw_only=True)
class Timed:
    """One pass of one subject."""

    samples: list[float]  # milliseconds, one for each round
    work: Sequence[Operation]
    needed_bytes: int | None = None  # that no way of computing it could do without, where known


def measurements(
    metric: str, timed: Mapping[str, Timed], machine: Machine, source: str
) -> Iterator[Measurement]:
    """All records of a pass, those of the baseline first."""
    baseline = timed.get(BASELINE)
    for subject, one in timed.items():
        yield from _own(metric, subject, one, machine, source)
        if baseline is not None and subject != BASELINE:
            yield from _against(metric, subject, one, baseline, machine, source)


def eager(metric: str, samples: Mapping[str, list[float]], source: str) -> Iterator[Measurement]:
    """The same pass launched operator by operator from Python."""
    for subject, ms in samples.items():
        yield value(f"{metric}_eager_ms", subject, median(ms), "ms", source, ms)


def _own(
    metric: str, subject: str, one: Timed, machine: Machine, source: str
) -> Iterator[Measurement]:
    yield value(f"{metric}_ms", subject, median(one.samples), "ms", source, one.samples)
    counted = "torch's dispatcher: operators of one pass"
    yield value(f"{metric}_flops", subject, sum(o.flops for o in one.work), "FLOP", counted)
    yield value(f"{metric}_bytes", subject, sum(o.bytes for o in one.work), "B", counted)
    yield value(f"{metric}_operators", subject, len(one.work), "count", counted)
    if one.needed_bytes is not None:
        yield value(f"{metric}_needed_bytes", subject, one.needed_bytes, "B", NEEDED)
    predicted_ms = machine.seconds(one.work) * 1e3
    yield value(f"{metric}_predicted_ms", subject, predicted_ms, "ms", MODEL)


def _against(
    metric: str, subject: str, one: Timed, baseline: Timed, machine: Machine, source: str
) -> Iterator[Measurement]:
    ratios = [a / b for a, b in zip(one.samples, baseline.samples, strict=True)]
    yield value(f"{metric}_ratio", subject, median(ratios), "ratio", source, ratios)
    for name, (told, of) in _models(machine).items():
        mine, base = of(one), of(baseline)
        if mine is None or base is None:
            continue
        yield value(f"{metric}_{name}_ratio", subject, mine / base, "ratio", told)
        over = [ratio * base / mine for ratio in ratios]
        told = f"{metric}_ratio over {metric}_{name}_ratio, round by round"
        yield value(f"{metric}_over_{name}", subject, median(over), "ratio", told, over)


def _models(machine: Machine) -> dict[str, tuple[str, Callable[[Timed], float | None]]]:
    """What a ratio could be, by three ways to foretell it: in words, and of one pass."""
    return {
        "predicted": (f"{MODEL}, over {BASELINE}'s", lambda one: machine.seconds(one.work)),
        "launched": (
            f"{MODEL}, and launch_us for each operator, over {BASELINE}'s",
            lambda one: machine.seconds(one.work, launches=True),
        ),
        "needed": (f"{NEEDED}, over {BASELINE}'s", lambda one: one.needed_bytes),
    }


def value(
    metric: str,
    subject: str,
    number: float,
    unit: str,
    source: str,
    samples: Sequence[float] = (),
) -> Measurement:
    return Measurement(
        metric=metric,
        subject=subject,
        value=float(number),
        unit=unit,
        source=source,
        samples=list(samples),
        level="model",
    )
