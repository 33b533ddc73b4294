"""Figures that the records of evidence give: values, statistics of samples, and paired ratios."""

import re
from collections.abc import Collection, Iterator
from functools import cache
from itertools import permutations
from statistics import median, quantiles

from assay.errors import BadInput
from assay.laws.pairs import PAIRED_METRICS, ratio
from assay.records.schema import Record
from assay.verify import evidence

_LEAST_DIGITS = 3  # fewer would be given by chance


def not_recorded(figures: Collection[str], names: str) -> list[str]:
    """Figures, as printed, that no record of some evidence folders gives when it is rounded alike;
    `names` has commas between."""
    folders = [name.strip() for name in names.split(",")]
    return [figure for figure in figures if not any(_is_given(figure, name) for name in folders)]


def _is_given(figure: str, name: str) -> bool:
    plain = figure.replace(",", "")
    digits = len(re.sub(r"^0*\.?0*|\.", "", plain))
    decimals = len(plain.partition(".")[2])
    return digits >= _LEAST_DIGITS and float(plain) in _rounded(name, decimals)


@cache
def _rounded(name: str, decimals: int) -> frozenset[float]:
    return frozenset(round(abs(number), decimals) for number in _numbers(name))


@cache
def _numbers(name: str) -> tuple[float, ...]:
    if not (evidence.FOLDER / name).is_dir():
        raise BadInput(f"a page names evidence/{name}, and there is no such folder")
    records = evidence.load(name)
    numbers = [number for record in records for number in _of(record)]
    return tuple([*numbers, *_ratios(records)])


def _of(record: Record) -> Iterator[float]:
    if record.value is not None:
        yield record.value
        yield 100 * record.value
    if record.samples:
        yield from (min(record.samples), median(record.samples), max(record.samples))
    if len(record.samples) > 1:
        yield from quantiles(record.samples, n=4, method="inclusive")


def _ratios(records: Collection[Record]) -> Iterator[float]:
    """Ratios of what was measured in the same rounds, with the ends of their intervals."""
    together: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        if record.metric in PAIRED_METRICS and record.samples:
            together.setdefault((record.stage, record.cell, record.metric), []).append(record)
    for group in together.values():
        for own, other in permutations(group, 2):
            paired = ratio(own, other)
            yield from (n for n in (paired.value, paired.low, paired.high) if n is not None)
