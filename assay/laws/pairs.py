"""Per-round ratios of two subjects that were measured side by side, and their interval.

Rounds of one cell are interleaved, so a disturbance hits both and falls out of the ratio. Only
records of one cell with equally many rounds are paired, never one that ran alone.
"""

from collections.abc import Sequence

import numpy as np

from assay.records.schema import Record

_RESAMPLES = 2000
_SEED = 0
_TAIL_PERCENT = 2.5  # on either side of a 95 % interval
_FEWEST_ROUNDS = 2

# The cell of a record, as one process worked through it.
Place = tuple[str, str, str, str, str]


def place_of(record: Record) -> Place:
    return record.run, record.host, record.stage, record.cell, record.fingerprint


def why_unpaired(record: Record, peer: Record) -> str | None:
    """Why two records of one metric are no pair; None where they are one."""
    for one in (record, peer):
        if one.status != "ok":
            return f"{one.subject} is {one.status}: {one.reason}"
        if one.alone:
            return f"{one.subject} ran alone, so it is paired with nothing"
        if len(one.samples) < _FEWEST_ROUNDS:
            rounds = "one round" if one.samples else "no samples"
            return f"{one.subject} has {rounds}; wanted {_FEWEST_ROUNDS} or more"
        if min(one.samples) <= 0:
            return f"{one.subject} has a sample of zero, by which nothing can be divided"
    if place_of(record) != place_of(peer):
        return f"{record.subject} and {peer.subject} were measured in different cells"
    if len(record.samples) != len(peer.samples):
        return (
            f"{record.subject} has {len(record.samples)} rounds, "
            f"{peer.subject} has {len(peer.samples)}"
        )
    return None


def log_ratios(record: Record, peer: Record) -> np.ndarray:
    """Of a pair, the logarithm of record / peer in each round; negative is faster."""
    return np.log(np.array(record.samples) / np.array(peer.samples))


def resampled_medians(rounds: Sequence[np.ndarray]) -> np.ndarray:
    """Medians of the rounds drawn anew with replacement (Efron 1979), one column for each array.

    Seeded, so the same records give the same interval.
    """
    drawn = np.random.default_rng(_SEED)
    return np.stack(
        [
            np.median(drawn.choice(values, size=(_RESAMPLES, len(values))), axis=1)
            for values in rounds
        ],
        axis=1,
    )


def interval(values: np.ndarray) -> tuple[float, float]:
    """The middle 95 % of resampled values."""
    low, high = np.percentile(values, (_TAIL_PERCENT, 100 - _TAIL_PERCENT))
    return float(low), float(high)
