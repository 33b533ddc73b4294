"""Per-round ratios of two subjects that were measured side by side, and their interval.

Rounds of one cell are interleaved, so a disturbance hits both and falls out of the ratio. Only
records of one cell are paired, never one that ran alone. Where one sat some rounds out, because it
took long, the two are compared over the rounds that both have, which are the first.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from assay.records.schema import Record

_RESAMPLES = 2000
_SEED = 0
_TAIL_PERCENT = 2.5  # on either side of a 95 % interval
# Of fewer rounds without any difference, all fall on one side of 1 in more than 5 % of the cases.
_FEWEST_ROUNDS = 6

# The cell of a record, as one process worked through it.
Place = tuple[str, str, str, str, str]


def place_of(record: Record) -> Place:
    return record.run, record.host, record.stage, record.cell, record.fingerprint


def clock_of(record: Record) -> str:
    """What took a record's samples: the first part of its source."""
    return (record.source or "").partition(";")[0]


def why_unpaired(record: Record, peer: Record) -> str | None:
    """Why two records of one metric are no pair; None where they are one."""
    for one in (record, peer):
        if one.status != "ok":
            return f"{one.subject} is {one.status}: {one.reason}"
        if one.alone:
            return f"{one.subject} ran alone, so it is paired with nothing"
        if len(one.samples) < _FEWEST_ROUNDS:
            count = f"{len(one.samples)} round" + ("" if len(one.samples) == 1 else "s")
            return f"{one.subject} has {count}; a 95 % interval takes {_FEWEST_ROUNDS} or more"
        if min(one.samples) <= 0:
            return f"{one.subject} has a sample of zero, by which nothing can be divided"
    if place_of(record) != place_of(peer):
        return f"{record.subject} and {peer.subject} were measured in different cells"
    return other_clock(record, peer)


def other_clock(record: Record, peer: Record) -> str | None:
    """Why two times may not be divided though they were taken side by side; None where they may."""
    ours, theirs = clock_of(record), clock_of(peer)
    if ours == theirs:
        return None
    return (
        f"{record.subject} was timed by another clock ({ours}) than {peer.subject} ({theirs}); "
        "compare their device_ms, which one profiler took"
    )


def log_ratios(record: Record, peer: Record) -> np.ndarray:
    """Of a pair, the logarithm of record / peer in each round; negative is faster."""
    both = min(len(record.samples), len(peer.samples))
    return np.log(np.array(record.samples[:both]) / np.array(peer.samples[:both]))


def resampled_medians(rounds: Sequence[np.ndarray]) -> np.ndarray:
    """Medians of the rounds drawn anew with replacement (Efron 1979), one column for each array.

    Seeded, so the same records give the same interval; each column has draws of its own.
    """
    columns = []
    for column, values in enumerate(rounds):
        lower, upper = _middle_ranks(len(values), column)
        ordered = np.sort(values)
        columns.append((ordered[lower] + ordered[upper]) / 2)
    return np.stack(columns, axis=1)


@lru_cache(maxsize=256)
def _middle_ranks(count: int, column: int) -> tuple[np.ndarray, np.ndarray]:
    """Which of the sorted values are the middle of each draw: the same for all values."""
    drawn = np.random.default_rng([_SEED, column]).integers(count, size=(_RESAMPLES, count))
    drawn.sort(axis=1)
    return drawn[:, (count - 1) // 2], drawn[:, count // 2]


def interval(values: np.ndarray, tail_percent: float = _TAIL_PERCENT) -> tuple[float, float]:
    """The middle of resampled values: 95 % of them, unless the tails are given."""
    low, high = np.percentile(values, (tail_percent, 100 - tail_percent))
    return float(low), float(high)
