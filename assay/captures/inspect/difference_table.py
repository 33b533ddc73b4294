"""How `assay inspect --diff` tells what differs, and the exit code that means it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import DOES_NOT_HOLD, HOLDS
from assay.reports.numerals import DASH, number
from assay.reports.table import Entry, Table

if TYPE_CHECKING:
    from assay.captures.inspect.difference import RecordDifference, TensorDifference

MOST_ROWS = 60


def compare(first: Path, second: Path, wanted: str | None, *, as_json: bool) -> int:
    """Print what differs between two stores or files; 1 where anything does."""
    from assay.captures.inspect.difference import differences

    found = []
    for difference in differences(first, second, wanted):
        found.append(difference)
        if as_json:
            print(_as_json(difference))
    if not as_json:
        _show(first, second, found)
    return DOES_NOT_HOLD if any(not each.equal for each in found) else HOLDS


def _as_json(found: "RecordDifference") -> str:
    import dataclasses
    import json

    return json.dumps({**dataclasses.asdict(found), "equal": found.equal}, allow_nan=False)


def _show(first: Path, second: Path, found: "Sequence[RecordDifference]") -> None:
    from assay.reports.terminal import console, show

    screen = console()
    screen.print(f"first: {first}\nsecond: {second}", markup=False, highlight=False)
    screen.print(_summary(found), style="bold", markup=False, highlight=False)
    for line in _beside(found):
        screen.print(f"! {line}", markup=False, highlight=False)
    rows = [row for each in found for row in _rows(each)]
    if rows:
        columns = ("call", "tensor", "differs in", "first", "second", "places", "where",
                   "largest", "relative", "ulp")  # fmt: skip
        show(Table(title="Differences", columns=columns, rows=tuple(rows)), screen,
             most_rows=MOST_ROWS)  # fmt: skip


def _summary(found: "Sequence[RecordDifference]") -> str:
    if not found:
        return "Nothing to compare: neither has a call."
    unequal = [each for each in found if not each.equal]
    if not unequal:
        return f"Equal, bit for bit: {_count(len(found), 'call')}."
    parts = []
    for where in ("first", "second"):
        alone = sum(each.only_in == where for each in found)
        parts += [f"{_count(alone, 'call')} only in the {where}"] if alone else []
    tensors = [tensor for each in found for tensor in each.tensors]
    if tensors:
        calls = sum(bool(each.tensors) for each in found)
        parts.append(f"{_count(len(tensors), 'tensor')} of {_count(calls, 'call')} differ")
    facts = sum(bool(each.facts) for each in found)
    parts += [f"phase, mode or scalars of {_count(facts, 'call')} differ"] if facts else []
    return f"Different: {'; '.join(parts)}; {len(found) - len(unequal):,} of {len(found):,} equal."


def _beside(found: "Sequence[RecordDifference]") -> list[str]:
    """Who computed it, where that differs: told once for each way in which it does."""
    ways: dict[tuple[str, Any, Any], int] = {}
    for each in found:
        for name, (a, b) in each.beside.items():
            ways[(name, a, b)] = ways.get((name, a, b), 0) + 1
    return [
        f"{name}: {a or DASH} in the first, {b or DASH} in the second ({_count(count, 'call')})"
        for (name, a, b), count in ways.items()
    ]


def _rows(found: "RecordDifference") -> list[tuple[Entry | str, ...]]:
    if found.only_in:
        there = {"first": DASH, "second": DASH, found.only_in: "there"}
        return [(found.name, "", "only in one", there["first"], there["second"], *("",) * 5)]
    rows: list[tuple[Entry | str, ...]] = [_tensor_row(found.name, t) for t in found.tensors]
    facts: Mapping[str, tuple[Any, Any]] = found.facts
    rows += [(found.name, "", name, str(a), str(b), *("",) * 5) for name, (a, b) in facts.items()]
    return rows


def _tensor_row(name: str, found: "TensorDifference") -> tuple[Entry | str, ...]:
    what = "only in one" if found.what in ("first", "second") else found.what
    where = "" if found.where is None else f"[{', '.join(map(str, found.where))}]"
    places = "" if found.places is None else f"{found.places:,} of {found.of_places:,}"
    sizes = (found.max_abs, found.max_relative, found.max_ulps)
    return (
        name,
        found.name,
        what,
        found.first,
        found.second if found.second != found.first else "the same",
        places,
        where,
        *("" if size is None else number(size) for size in sizes),
    )


def _count(number_of: int, what: str) -> str:
    return f"{number_of:,} {what}{'' if number_of == 1 else 's'}"
