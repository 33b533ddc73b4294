"""Every law that some records hold, at once; refused where they hold none."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from assay.errors import CannotRunHere
from assay.laws.crossover import Crossover, crossovers
from assay.laws.growth import METRICS, Exponent, exponents
from assay.laws.machines import capacities, device_name, host_of
from assay.laws.oom import OomLength, oom_lengths
from assay.laws.rates import DIRECTIONS
from assay.laws.thresholds import METRIC, Recommendation, recommend
from assay.records.schema import Record, Run


@dataclass(frozen=True, kw_only=True)
class Laws:
    """Laws fitted to some records; `devices` names the device of each host."""

    exponents: tuple[Exponent, ...]
    crossovers: tuple[Crossover, ...]
    oom_lengths: tuple[OomLength, ...]
    recommendations: tuple[Recommendation, ...]
    devices: dict[str, str | None]

    def as_lines(self) -> Iterator[str]:
        """Each law as one JSON object."""
        for exponent in self.exponents:
            powers = exponent.terms.coefficients if exponent.terms else None
            yield _line("exponent", exponent, terms=powers, shares=exponent.shares)
        for crossover in self.crossovers:
            yield _line("crossover", crossover, words=crossover.words)
        for limit in self.oom_lengths:
            yield _line("oom_length", limit, difference=limit.difference)
        for advice in self.recommendations:
            device = self.devices.get(advice.workloads.host)
            yield _line("recommendation", advice, device=device, words=advice.words)

    def required_recommendations(self) -> tuple[Recommendation, ...]:
        """The recommendations; refused where there are none."""
        if not self.recommendations:
            raise CannotRunHere(
                f"the records recommend nothing: that takes {METRIC} of two subjects or more, "
                "measured in pairs on a plain workload"
            )
        return self.recommendations


def fit_all(
    records: Sequence[Record],
    runs: Sequence[Run],
    *,
    metrics: Sequence[str] | None = None,
    against: str | None = None,
) -> Laws:
    """Every law of these metrics (the usual ones where None); each subject against `against`."""
    metrics = metrics or METRICS
    timed = [metric for metric in metrics if metric in DIRECTIONS]
    limits = oom_lengths(records, capacities=capacities(runs))
    laws = Laws(
        exponents=tuple(exponents(records, metrics=metrics)),
        crossovers=tuple(
            each for metric in timed for each in crossovers(records, metric=metric, against=against)
        ),
        oom_lengths=tuple(limit for limit in limits if limit.metric in metrics),
        recommendations=tuple(recommend(records)) if METRIC in metrics else (),
        devices={host_of(run): device_name(run) for run in runs},
    )
    _refuse_nothing(laws)
    return laws


def _refuse_nothing(laws: Laws) -> None:
    fitted = (
        any(exponent.value is not None for exponent in laws.exponents)
        or any(crossover.outcome != "not compared" for crossover in laws.crossovers)
        or any(limit.predicted is not None for limit in laws.oom_lengths)
    )
    if not fitted:
        reasons = [exponent.reason for exponent in laws.exponents if exponent.reason]
        reasons += [crossover.words for crossover in laws.crossovers]
        why = "; ".join(dict.fromkeys(reasons)) or "no time or memory of two or more lengths"
        raise CannotRunHere(f"these records hold nothing to fit: {why}")


def _line(law: str, fitted: Any, **more: Any) -> str:
    return msgspec.json.encode({"law": law, **msgspec.to_builtins(fitted), **more}).decode()
