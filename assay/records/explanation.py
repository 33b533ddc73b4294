"""All failures of one implementation explained together: what accounts for most of them first.

Each probe that fails has a likely cause of its own, and a single mistake fails many probes. Here
probes with the same cause are one group, told once, by the probe that says most. Probes that
compare no values and know no cause follow from the first group, where there is one.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from assay.records.schema import Measurement
from assay.records.verdicts import ERROR_OVER_BUDGET, NO_VERDICTS

# Probes that compare values say most about a mistake, and plain ones more than special ones.
_TELLING = ("accuracy", "shapes", "gradients", "options", "stability", "causality", "strides")
# Causes that say where values are wrong, and not why.
_PLACES = ("it fails only ", "wrong only in ")
# What a likely cause says beside the mistake itself: where it shows.
# Causes that go by the size of errors, which other mistakes may have too.
_SIZES = re.compile(r"rounding|lower precision")
_WHERE = re.compile(
    r" \(it fails only .*\)$|; in other cases .*$|; where the output is right, .*$"
    r"|^in some rows, |^where it does not raise, "
)
# Two mistakes that fit equally well, each perhaps with a clause after a colon.
_TIED = re.compile(r"[^:,]*(: [^,]*)?, or ")
# What may differ between the words of one error.
_NUMBERS_AND_DTYPES = re.compile(r"\b(b?float16|half|bf16|fp16)\b|\d+", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A mistake, the failure that shows it best, and other probes that fail for it."""

    shown_by: Measurement
    also: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The likely cause first, then where it shows, the smallest case and how to repeat it."""
        shown = self.shown_by
        parts = [f"likely cause: {shown.cause}"] if shown.cause else []
        parts.append(f"{shown.metric}: {shown.reason}")
        if shown.workload:
            probe = probe_of(shown.metric)
            named = f"--probe {probe} " if probe else ""
            parts.append(f"to repeat it: {named}--workload {shown.workload.name}")
        if self.also:
            probes = "probe fails" if len(self.also) == 1 else "probes fail"
            names = ", ".join(self.also)
            parts.append(f"{len(self.also)} further {probes} for the same reason: {names}")
        return "; ".join(parts)


def names_mistake(cause: str | None) -> bool:
    """True for a cause that says why values are wrong, not only where."""
    return bool(cause) and not cause.startswith(_PLACES)


def brief_cause(cause: str) -> str:
    """A likely cause in one clause, without where it shows; says so where another fits as well."""
    plain = _without_place(cause)
    head = re.split(r": |, or |; ", plain)[0]
    return f"{head} (another cause fits too: see below)" if _TIED.match(plain) else head


def probe_of(metric: str) -> str:
    """The probe behind a metric: its own name, but for those of a check on a workload; empty where
    there is none, or several ended together."""
    if metric in (*NO_VERDICTS, "load") or "+" in metric:
        return ""
    if tensor := re.fullmatch(rf"{ERROR_OVER_BUDGET}(\w+)|gradient_of_\w+", metric):
        return "accuracy" if tensor[1] in ("out", "lse") else "gradients"
    return metric


def explained(failures: Sequence[Measurement]) -> list[Explanation]:
    """Group the failures of one implementation; the mistake that explains most comes first."""
    groups: dict[str, list[Measurement]] = {}
    for failure in sorted(failures, key=lambda failure: (failure.cause is None, rank(failure))):
        groups.setdefault(_mistake(failure), []).append(failure)
    ordered = sorted(groups.values(), key=_order)
    first = next((group for group in ordered if group[0].metric in _TELLING), None)
    for group in [group for group in ordered if first and _follows(group)]:
        ordered.remove(group)
        first += group
    return [
        Explanation(shown_by=group[0], also=tuple(failure.metric for failure in group[1:]))
        for group in ordered
    ]


def _order(group: Sequence[Measurement]) -> tuple[int, bool, int, int]:
    """Inputs that are changed and state that is kept explain any wrong value, so they come first;
    a mere place or condition explains none, so it comes last, and before it the size of errors."""
    of_size = _SIZES.search(group[0].cause or "")
    guess = 2 if _mistake(group[0]).startswith(_PLACES) else 1 if of_size else 0
    return guess, not any(_is_of_state(failure) for failure in group), -len(group), rank(group[0])


def _is_of_state(failure: Measurement) -> bool:
    return failure.metric == "purity" and failure.cause is not None


def _follows(group: Sequence[Measurement]) -> bool:
    """True for a failure without a cause of a probe that is about something else than values."""
    return all(failure.cause is None and failure.metric not in _TELLING for failure in group)


def rank(failure: Measurement) -> int:
    """Place of a failure among others: how much its probe says about a mistake."""
    known = failure.metric in _TELLING
    return _TELLING.index(failure.metric) if known else len(_TELLING)


def _mistake(failure: Measurement) -> str:
    """The cause without where it shows, and the first of several that no case tells apart; where
    none is known, what is raised or the dtype that is wrong, or each failure by itself."""
    seen = re.match(r"raises \w+: [^;]*|\w+ has dtype \w+", failure.reason or "")
    cause = failure.cause
    if seen and (cause is None or cause.startswith(_PLACES)):
        return _NUMBERS_AND_DTYPES.sub("", seen[0])
    if cause is None:
        return f"{failure.metric}: {failure.reason}"
    if place := next((place for place in _PLACES if cause.startswith(place)), None):
        return place
    return _without_place(cause).partition(", or ")[0]


def _without_place(cause: str) -> str:
    while (plain := _WHERE.sub("", cause)) != cause:
        cause = plain
    return cause
