"""Results of a check: it holds, it fails, or it could not look."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from assay.records.foreign_text import visible
from assay.verify.compared import RunComparison

Word = Literal["holds", "fails", "not tested"]
_PLACES = 2  # that are named for each value


@dataclass(frozen=True, kw_only=True)
class CheckFinding:
    """One line of a judgement. The judgement writes the name of the check into it."""

    verdict: Word
    reason: str
    check: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", visible(self.reason))


def holds(reason: str) -> CheckFinding:
    return CheckFinding(verdict="holds", reason=reason)


def fails(reason: str) -> CheckFinding:
    return CheckFinding(verdict="fails", reason=reason)


def not_tested(reason: str) -> CheckFinding:
    return CheckFinding(verdict="not tested", reason=reason)


def alike(what: str, values: Iterable[tuple[str, Any]]) -> CheckFinding:
    """Compare what is said of `what` in all places; None is a place that does not say it."""
    places: dict[str | None, list[str]] = {}
    for place, value in values:
        places.setdefault(None if value is None else _plain(value), []).append(place)
    silent = places.pop(None, [])
    if len(places) > 1:
        values_by_place = "; ".join(f"{value} in {named(at)}" for value, at in places.items())
        return fails(f"{what} differs: {values_by_place}")
    if not places:
        return not_tested(f"{what}: nothing here says it")
    (value,) = places
    if silent:
        return not_tested(f"{what}: {value}, and {named(silent)} does not say it")
    return holds(f"{what}: {value}")


def is_other(first: Any, second: Any) -> bool:
    """True where two values differ; 6e-4 and 0.0006 do not, nor do an absent and an empty one."""
    return _plain(first or "") != _plain(second or "")


def _plain(value: Any) -> str:
    text = str(value)
    try:
        return f"{float(text):.12g}" if isinstance(value, str | int | float) else text
    except ValueError:
        return text


def named(places: list[str]) -> str:
    """The first few of some places, and how many there are besides."""
    distinct = list(dict.fromkeys(places))
    more = len(distinct) - _PLACES
    return ", ".join(distinct[:_PLACES]) + (f" and {more} more" if more > 0 else "")


def same_symbols(comparison: RunComparison, *symbols: str) -> list[CheckFinding]:
    """Compare how two runs set these symbols; a symbol that neither knows is left out."""
    if len(comparison.runs) < 2:
        return []
    findings = []
    for symbol in symbols:
        values = [(run.name, run.symbol(symbol)) for run in comparison.runs]
        if symbol in comparison.treated:
            findings.append(holds(f"{symbol} is the treatment"))
        elif any(value is not None for _, value in values):
            findings.append(alike(symbol, values))
    return findings


def same_data(comparison: RunComparison, *entries: str) -> list[CheckFinding]:
    """Compare what all arms recorded beside their last loss."""
    final = comparison.final()
    return [
        alike(entry, [(place, (record.data or {}).get(entry)) for place, record in final])
        for entry in (entries if final else ())
    ]
