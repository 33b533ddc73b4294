"""Records of a timed pass: its time, its ratio to the baseline, the time that its counted work
predicts, and the measured over the predicted."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from _model_cost.machine import Machine
from assay.frameworks.torch.counting import CountedOperator
from assay.records.schema import Measurement

BASELINE = "GPT2"
NEEDED = "bytes of all weights but the position embedding, and of the cache"
MODEL = "sum over operators of the longer of FLOPs / matmul_rate and bytes / copy_bandwidth"
COUNTED = "torch's dispatcher: operators of one pass"


@dataclass(frozen=True, kw_only=True)
class TimedPass:
    """One pass of one variant; `measurement` has a sample in milliseconds for each round."""

    measurement: Measurement
    work: Sequence[CountedOperator]
    needed_bytes: int | None = None  # that no way to compute it could do without, where known


def measurements(
    metric: str, timed: Mapping[str, TimedPass], machine: Machine
) -> Iterator[Measurement]:
    """All records of a pass, those of the baseline first."""
    baseline = timed.get(BASELINE)
    for name, timed_pass in timed.items():
        yield from _of_one(metric, name, timed_pass, machine)
        if baseline is not None and name != BASELINE:
            yield from _against(metric, name, timed_pass, baseline, machine)


def _of_one(
    metric: str, name: str, timed_pass: TimedPass, machine: Machine
) -> Iterator[Measurement]:
    yield timed_pass.measurement
    work = timed_pass.work
    yield value(f"{metric}_flops", name, sum(o.flops for o in work), "FLOP", COUNTED)
    yield value(f"{metric}_bytes", name, sum(o.bytes for o in work), "B", COUNTED)
    yield value(f"{metric}_operators", name, len(work), "count", COUNTED)
    if timed_pass.needed_bytes is not None:
        yield value(f"{metric}_needed_bytes", name, timed_pass.needed_bytes, "B", NEEDED)
    yield value(f"{metric}_predicted_ms", name, machine.seconds(work) * 1e3, "ms", MODEL)


def _against(
    metric: str, name: str, timed_pass: TimedPass, baseline: TimedPass, machine: Machine
) -> Iterator[Measurement]:
    source = timed_pass.measurement.source
    pairs = zip(timed_pass.measurement.samples, baseline.measurement.samples, strict=False)
    ratios = [mine / base for mine, base in pairs]  # of the rounds that both took part in
    yield value(f"{metric}_ratio", name, median(ratios), "ratio", source, ratios)
    for model, (source, predict) in _models(machine).items():
        mine, base = predict(timed_pass), predict(baseline)
        if mine is None or base is None:
            continue
        yield value(f"{metric}_{model}_ratio", name, mine / base, "ratio", source)
        over = [ratio * base / mine for ratio in ratios]
        source = f"{metric}_ratio over {metric}_{model}_ratio, round by round"
        yield value(f"{metric}_over_{model}", name, median(over), "ratio", source, over)


def _models(machine: Machine) -> dict[str, tuple[str, Callable[[TimedPass], float | None]]]:
    """Three ways to predict a time or what it is proportional to: in words, and of one pass."""
    return {
        "predicted": (f"{MODEL}, over {BASELINE}'s", lambda timed: machine.seconds(timed.work)),
        "launched": (
            f"{MODEL}, and launch_us for each operator, over {BASELINE}'s",
            lambda timed: machine.seconds(timed.work, launches=True),
        ),
        "needed": (f"{NEEDED}, over {BASELINE}'s", lambda timed: timed.needed_bytes),
    }


def value(
    metric: str,
    name: str,
    number: float,
    unit: str,
    source: str,
    samples: Sequence[float] = (),
) -> Measurement:
    """A measurement of a whole model."""
    return Measurement(
        metric=metric,
        subject=name,
        value=float(number),
        unit=unit,
        source=source,
        samples=list(samples),
        level="model",
    )
