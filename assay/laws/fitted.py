"""Every law that some records hold, at once; refused where they hold none."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from assay.errors import CannotRunHere
from assay.laws import exponent
from assay.laws.crossover import Crossover, crossovers
from assay.laws.exponent import Exponent, exponents
from assay.laws.machines import device_name, host_of
from assay.laws.oom import OomLength, capacities, oom_lengths
from assay.laws.rates import DIRECTIONS
from assay.laws.thresholds import METRIC, Recommendation, recommend
from assay.records.schema import Record, Run


@dataclass(frozen=True, kw_only=True)
class Laws:
    """What was fitted; `devices` names the device of each host."""

    exponents: tuple[Exponent, ...]
    crossovers: tuple[Crossover, ...]
    oom_lengths: tuple[OomLength, ...]
    recommendations: tuple[Recommendation, ...]
    devices: dict[str, str | None]

    def as_lines(self) -> Iterator[str]:
        """Each law as one JSON object."""
        for one in self.exponents:
            powers = one.terms.coefficients if one.terms else None
            yield _line("exponent", one, terms=powers, shares=one.shares)
        for crossing in self.crossovers:
            yield _line("crossover", crossing, words=crossing.words)
        for limit in self.oom_lengths:
            yield _line("oom_length", limit, difference=limit.difference)
        for advice in self.recommendations:
            device = self.devices.get(advice.workloads.host)
            yield _line("recommendation", advice, device=device, words=advice.words)

    def required_recommendations(self) -> tuple[Recommendation, ...]:
        """The recommendations, of which there must be one."""
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
    asked = metrics or exponent.METRICS
    timed = [metric for metric in asked if metric in DIRECTIONS]
    limits = oom_lengths(records, capacities=capacities(runs))
    laws = Laws(
        exponents=tuple(exponents(records, metrics=asked)),
        crossovers=tuple(
            one for metric in timed for one in crossovers(records, metric=metric, against=against)
        ),
        oom_lengths=tuple(one for one in limits if one.metric in asked),
        recommendations=tuple(recommend(records)) if METRIC in asked else (),
        devices={host_of(run): device_name(run) for run in runs},
    )
    _refuse_nothing(laws)
    return laws


def _refuse_nothing(laws: Laws) -> None:
    fitted = (
        any(one.value is not None for one in laws.exponents)
        or any(one.outcome != "not compared" for one in laws.crossovers)
        or any(one.predicted is not None for one in laws.oom_lengths)
    )
    if not fitted:
        reasons = [one.reason for one in laws.exponents if one.reason]
        reasons += [one.words for one in laws.crossovers]
        told = "; ".join(dict.fromkeys(reasons)) or "nothing was measured on equal lengths"
        raise CannotRunHere(f"these records hold nothing to fit: {told}")


def _line(law: str, one: Any, **more: Any) -> str:
    return msgspec.json.encode({"law": law, **msgspec.to_builtins(one), **more}).decode()
