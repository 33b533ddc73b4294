"""How each head of a captured call spreads its attention: entropy, sinks, peaks and scores.

Axes: B batch, H query heads, M queries (those looked at), N keys. Sums are float64. A query that
sees fewer than two keys has no choice, so it is left out of every mean.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from assay.captures.inspect.scores import AttentionCall

MOST_PAIRS = 2**22  # of query and key, over rows and heads; beyond that queries are sampled
FEWEST_QUERIES = 64  # that a sample has
MAP_SIZE = 48  # cells of an attention map, at most, along either side
_QUERIES_PER_CELL = 8

PerHead = tuple[float | None, ...]


@dataclass(frozen=True, kw_only=True)
class HeadStatistics:
    """Of each query head, over rows and queries; None where no query has a choice."""

    entropy: PerHead  # mean, in nats
    effective_keys: PerHead  # exp of it: so many keys, equally weighted, spread as much
    sink: PerHead  # mean weight of the first key of the sequence
    largest: PerHead  # mean of the largest weight
    score_absmax: PerHead  # over all pairs that are seen
    score_spread: PerHead  # median of the distance from the lowest to the highest score
    uniform_entropy: float | None  # the mean of ln(keys seen): what equal weights would have
    uniform_sink: float | None  # the mean of 1 / keys seen
    queries: int  # of each row and head that were looked at,
    of_queries: int  # out of so many
    measured: int  # queries of all rows in the means; the least of any head
    blind: int  # that see no key at all, of the most blind head
    nonfinite: int  # left out because a score is not finite, of the worst head
    padding_share: float  # keys that the mask hides from every query
    hidden_share: float  # pairs of query and key that mask and causality hide

    @property
    def sampled(self) -> bool:
        return self.queries < self.of_queries


@dataclass(frozen=True, kw_only=True, eq=False)
class AttentionMap:
    """Weights of one head of one row, coarse: a cell is the mean over its queries of the weight
    of its keys together, so that a line of cells sums to one."""

    head: int
    weights: np.ndarray  # [cells of queries, cells of keys]
    queries: int
    keys: int


class _Rows(NamedTuple):
    """What is measured of each query; NaN where it sees fewer than two keys."""

    entropy: np.ndarray
    sink: np.ndarray
    largest: np.ndarray
    absmax: np.ndarray
    spread: np.ndarray
    seen: np.ndarray  # how many keys
    finite: np.ndarray


def head_statistics(call: AttentionCall, *, most_pairs: int = MOST_PAIRS) -> HeadStatistics:
    """Measured over all queries, or over evenly spaced ones where there are too many pairs."""
    batch, heads, queries, keys = call.sizes
    rows = _sample(queries, max(FEWEST_QUERIES, most_pairs // (batch * heads * keys)))
    first = call.first_key_B
    of_heads = [
        _joined([_measured(*call.scores(b, h, rows), first_key=first[b]) for b in range(batch)])
        for h in range(heads)
    ]
    kept = np.concatenate([r.seen[~np.isnan(r.entropy)] for r in of_heads]).astype(np.float64)
    seen_pairs = sum(int(r.seen.sum()) for r in of_heads)
    entropy = tuple(_over(np.mean, r.entropy) for r in of_heads)
    return HeadStatistics(
        entropy=entropy,
        effective_keys=tuple(None if e is None else float(np.exp(e)) for e in entropy),
        sink=tuple(_over(np.mean, r.sink) for r in of_heads),
        largest=tuple(_over(np.mean, r.largest) for r in of_heads),
        score_absmax=tuple(_over(np.max, r.absmax) for r in of_heads),
        score_spread=tuple(_over(np.median, r.spread) for r in of_heads),
        uniform_entropy=float(np.log(kept).mean()) if kept.size else None,
        uniform_sink=float((1 / kept).mean()) if kept.size else None,
        queries=len(rows),
        of_queries=queries,
        measured=min(int((~np.isnan(r.entropy)).sum()) for r in of_heads),
        blind=max(int((r.seen == 0).sum()) for r in of_heads),
        nonfinite=max(int((~r.finite).sum()) for r in of_heads),
        padding_share=float(call.padding_BN.mean()),
        hidden_share=1 - seen_pairs / (batch * heads * len(rows) * keys),
    )


def attention_map(
    call: AttentionCall, *, head: int, row: int = 0, size: int = MAP_SIZE
) -> AttentionMap:
    """A coarse picture of the weights of one head; of each cell at most eight queries are used."""
    _, _, queries, keys = call.sizes
    starts = np.linspace(0, keys, min(size, keys) + 1).astype(int)[:-1]
    cells = []
    for group in np.array_split(np.arange(queries), min(size, queries)):
        rows = group[_sample(len(group), _QUERIES_PER_CELL)]
        scores, seen = call.scores(row, head, rows)
        usable = seen.any(axis=1) & np.isfinite(np.where(seen, scores, 0.0)).all(axis=1)
        weights = _weights(scores[usable], seen[usable])
        mean = weights.mean(axis=0) if len(weights) else np.zeros(keys)
        cells.append(np.add.reduceat(mean, starts))
    return AttentionMap(head=head, weights=np.array(cells), queries=queries, keys=keys)


def median_head(found: HeadStatistics) -> int:
    """The head whose entropy is the median; the first where none has any. The most peaked and the
    most even heads make pictures of one line and of none."""
    known = sorted((e, head) for head, e in enumerate(found.entropy) if e is not None)
    return known[(len(known) - 1) // 2][1] if known else 0


def _measured(scores: np.ndarray, seen: np.ndarray, *, first_key: int) -> _Rows:
    count = seen.sum(axis=1)
    finite = np.isfinite(np.where(seen, scores, 0.0)).all(axis=1)
    use = (count >= 2) & finite
    nothing = np.full(len(scores), np.nan)
    entropy, sink, largest, absmax, spread = (nothing.copy() for _ in range(5))
    some, shown = scores[use], seen[use]
    weights = _weights(some, shown)
    logs = np.log(weights, out=np.zeros_like(weights), where=weights > 0)
    entropy[use] = -(weights * logs).sum(axis=1)
    sink[use] = weights[:, first_key]
    largest[use] = weights.max(axis=1, initial=0.0)
    absmax[use] = np.abs(np.where(shown, some, 0.0)).max(axis=1, initial=0.0)
    highest = np.where(shown, some, -np.inf).max(axis=1, initial=-np.inf)
    lowest = np.where(shown, some, np.inf).min(axis=1, initial=np.inf)
    spread[use] = highest - lowest
    return _Rows(entropy, sink, largest, absmax, spread, count, finite)


def _weights(scores: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Softmax over the keys that are seen, of which every query has one."""
    lowered = np.where(seen, scores, -np.inf)
    raised = np.exp(lowered - lowered.max(axis=1, keepdims=True, initial=-np.inf))
    return raised / raised.sum(axis=1, keepdims=True)


def _sample(count: int, most: int) -> np.ndarray:
    """Indices, evenly spaced from the first to the last where there are more than `most`."""
    if count <= most:
        return np.arange(count)
    return np.unique(np.linspace(0, count - 1, most).round().astype(int))


def _joined(parts: list[_Rows]) -> _Rows:
    return _Rows(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _over(reduce: Callable[[np.ndarray], float], values: np.ndarray) -> float | None:
    known = values[~np.isnan(values)]
    return float(reduce(known)) if known.size else None
