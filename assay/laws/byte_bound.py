"""Ratios of decode kernels held against the bytes of their caches: what bytes cannot explain.

A step of decoding reads its cache once, so a kernel is faster than another by at most the ratio of
their bytes, if both read as fast. A ratio beyond that says that the baseline is slow, or that
something was not read. It is withheld until the baseline's share of the bandwidth measured here is
known and our own kernel for 16 bits stands beside it as a second baseline; what is beyond the bytes
against both is refused. Two files that read the same bytes need no second baseline: there a ratio
is refused where the faster would read beyond the bandwidth.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from assay.laws.curves import DECODE
from assay.laws.pairs import Ratio, ratio
from assay.laws.rates import DIRECTIONS, rates
from assay.records.schema import Record

SECOND = "dense:dense"  # the baseline that reads every byte of 16 bits
CACHE_BYTES = "kv_cache_bytes"
_SLACK = 1.02  # of a bound, for what timing cannot tell
WITHHELD, REFUSED = "withheld", "refused"

# Bytes of a cache by formula, by cell and subject.
_Bytes = Mapping[tuple[str, str], float]


def bounded(
    ratios: Mapping[int, Ratio], records: Sequence[Record], run: Sequence[Record]
) -> dict[int, Ratio]:
    """The ratios of timed records of one stage, by `id`, those of decode kernels as their bytes
    allow; `run` holds the ceilings that were measured."""
    if not any(record.stage == DECODE for record in records):
        return dict(ratios)
    held = {(r.cell, r.subject): r.value for r in run if r.metric == CACHE_BYTES and r.value}
    shares = {id_: rate.memory_share for id_, rate in rates(run).items()}
    timed = {(r.cell, r.metric, r.subject): r for r in reversed(records)}
    judged = {}
    for record in records:
        if id(record) not in ratios:
            continue
        own = ratios[id(record)]
        peer = timed.get((record.cell, record.metric, own.against))
        second = timed.get((record.cell, record.metric, SECOND))
        share = shares.get(id(peer)) if peer else None
        judged[id(record)] = _judged(own, record, second, share, held)
    return judged


def unread(records: Sequence[Record]) -> list[str]:
    """Sentences on times of decode kernels that reading all of their bytes does not allow: beside
    the second baseline, which reads every byte of 16 bits in the same rounds."""
    held = {(r.cell, r.subject): r.value for r in records if r.metric == CACHE_BYTES and r.value}
    timed = [r for r in records if r.stage == DECODE and r.metric in DIRECTIONS]
    second = {(r.cell, r.metric): r for r in timed if r.subject == SECOND}
    sentences = []
    for record in timed:
        peer = second.get((record.cell, record.metric))
        least = _least(record, SECOND, held)
        beside = _beside(record, peer) if peer else None
        if beside and least and beside * _SLACK < least:
            sentences.append(
                f"{record.subject} takes {beside:.3g} of {SECOND}'s {record.metric} on "
                f"{record.cell}, its bytes {least:.3g}"
            )
    return sentences


def least_ratio(subject: float | None, against: float | None) -> float | None:
    """The shortest time that bytes of two caches explain, as a share of the other's."""
    return subject / against if subject and against else None


def as_bytes_allow(own: Ratio, least: float | None) -> Ratio:
    """A ratio to the second baseline, beside which there is no third: withheld where it is less
    than bytes explain."""
    if own.value is None or least is None or own.value * _SLACK >= least:
        return own
    reason = f"{WITHHELD}: {own.value:.3g} of {own.against}'s time is less than the {least:.3g}"
    return _without(own, f"{reason} of its bytes")


def _judged(
    own: Ratio, record: Record, second: Record | None, share: float | None, held: _Bytes
) -> Ratio:
    least = _least(record, own.against, held)
    if own.value is None or own.value <= 0:
        return own
    if least is None:
        unknown = "the bytes of both caches are not known; add work to PROBES"
        return _without(own, f"{WITHHELD}: {unknown}")
    if own.value * _SLACK >= least:
        return own
    beyond = f"{own.value:.3g} of {own.against}'s time is less than the {least:.3g} of its bytes"
    if least == 1.0 and share is not None:
        return _of_same_bytes(own, share)
    if missing := _missing(own, second, share, same_bytes=least == 1.0):
        return _without(own, f"{WITHHELD}: {beyond}; to be shown it needs {' and '.join(missing)}")
    assert second is not None and share is not None
    beside, floor = _beside(record, second), _least(record, SECOND, held)
    if beside is None or floor is None:
        return _without(own, f"{WITHHELD}: {beyond}; {SECOND} was not timed beside it")
    if beside * _SLACK < floor:
        reason = f"and so is {beside:.3g} of {SECOND}'s, where bytes explain {floor:.3g}"
        return _without(own, f"{REFUSED}: {beyond}, {reason}: something was not read")
    words = f"{own.against} reads at {share:.0%} of the bandwidth measured here"
    return replace(own, reason=f"{beyond}: {words}; {beside:.3g} of {SECOND}'s time")


def _of_same_bytes(own: Ratio, share: float) -> Ratio:
    """A ratio between two files of one layout."""
    reached = share / own.value
    if reached > _SLACK:
        return _without(own, f"{REFUSED}: it would read at {reached:.0%} of the bandwidth here")
    return replace(own, reason=f"{own.against} reads at {share:.0%} of the bandwidth here")


def _missing(
    own: Ratio, second: Record | None, share: float | None, *, same_bytes: bool
) -> list[str]:
    """Say what a ratio beyond its bytes needs, and how to have it."""
    missing = []
    if share is None:
        missing.append(f"the share of bandwidth that {own.against} reaches (host in STAGES)")
    if not same_bytes and (second is None or second.value is None):
        missing.append(f"{SECOND} beside it (in DECODERS)")
    return missing


def _least(record: Record, against: str, held: _Bytes) -> float | None:
    return least_ratio(held.get((record.cell, record.subject)), held.get((record.cell, against)))


def _beside(record: Record, second: Record) -> float | None:
    return 1.0 if record.subject == SECOND else ratio(record, second).value


def _without(own: Ratio, reason: str) -> Ratio:
    return Ratio(subject=own.subject, against=own.against, rounds=own.rounds, reason=reason)
