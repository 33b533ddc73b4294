"""Table of the differences between two captures, as `assay inspect --diff` prints it."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from assay.captures.inspect.difference import (
    FIRST,
    SECOND,
    CallDifference,
    TensorDifference,
    differences,
)
from assay.captures.inspect.inspection import MOST_ROWS
from assay.errors import DOES_NOT_HOLD, HOLDS
from assay.reports.numerals import DASH, counted, number
from assay.reports.table import Entry, Table

_COLUMNS = (
    "call", "tensor", "differs in", "first", "second", "places", "where", "largest", "relative",
    "ulp",
)  # fmt: skip


def compare(first: Path, second: Path, records: str | None, *, as_json: bool) -> int:
    """Print the differences between two stores or files; 1 where there are any, else 0."""
    calls = []
    for call in differences(first, second, records):
        calls.append(call)
        if as_json:
            print(json.dumps({**asdict(call), "equal": call.equal}, allow_nan=False))
    if not as_json:
        _show(first, second, calls)
    return HOLDS if all(call.equal for call in calls) else DOES_NOT_HOLD


def _show(first: Path, second: Path, calls: Sequence[CallDifference]) -> None:
    from assay.reports.terminal import console, show

    screen = console()
    screen.print(f"first: {first}\nsecond: {second}", markup=False, highlight=False)
    screen.print(_summary(calls), style="bold", markup=False, highlight=False)
    for line in _beside(calls):
        screen.print(f"! {line}", markup=False, highlight=False)
    rows = tuple(row for call in calls for row in _rows(call))
    if rows:
        table = Table(title="Differences", columns=_COLUMNS, rows=rows)
        show(table, screen, most_rows=MOST_ROWS)


def _summary(calls: Sequence[CallDifference]) -> str:
    if not calls:
        return "Nothing to compare: neither has any calls."
    equal = sum(call.equal for call in calls)
    if equal == len(calls):
        return f"Equal, bit for bit: {counted(equal, 'call')}."
    parts = []
    for side in (FIRST, SECOND):
        alone = sum(call.only_in == side for call in calls)
        parts += [f"{counted(alone, 'call')} only in the {side}"] if alone else []
    tensors = sum(len(call.tensors) for call in calls)
    if tensors:
        having = sum(bool(call.tensors) for call in calls)
        parts.append(f"{counted(tensors, 'tensor')} of {counted(having, 'call')} differ")
    facts = sum(bool(call.facts) for call in calls)
    parts += [f"phase, mode or scalars of {counted(facts, 'call')} differ"] if facts else []
    return f"Different: {'; '.join(parts)}; {equal:,} of {len(calls):,} equal."


def _beside(calls: Sequence[CallDifference]) -> list[str]:
    """A line for each other implementation, framework or device, with the number of calls."""
    pairs = Counter((name, a, b) for call in calls for name, (a, b) in call.beside.items())
    return [
        f"{name}: {a or DASH} in the first, {b or DASH} in the second ({counted(count, 'call')})"
        for (name, a, b), count in pairs.items()
    ]


def _rows(call: CallDifference) -> list[tuple[Entry | str, ...]]:
    blank = ("",) * 5
    if call.only_in:
        sides = ("present" if call.only_in == side else DASH for side in (FIRST, SECOND))
        return [(call.name, "", "only in one", *sides, *blank)]
    facts = [(call.name, "", name, str(a), str(b), *blank) for name, (a, b) in call.facts.items()]
    return [*(_tensor_row(call.name, tensor) for tensor in call.tensors), *facts]


def _tensor_row(name: str, tensor: TensorDifference) -> tuple[Entry | str, ...]:
    distances = (tensor.max_abs, tensor.max_relative, tensor.max_ulps)
    return (
        name,
        tensor.name,
        "only in one" if tensor.what in (FIRST, SECOND) else tensor.what,
        tensor.first,
        tensor.second if tensor.second != tensor.first else "the same",
        "" if tensor.places is None else f"{tensor.places:,} of {tensor.of_places:,}",
        "" if tensor.where is None else f"[{', '.join(map(str, tensor.where))}]",
        *("" if distance is None else number(distance) for distance in distances),
    )
