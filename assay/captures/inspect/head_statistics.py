"""Statistics of each head's attention in a captured call: entropy, sinks, peaks and scores.

Axes: B batch, H query heads, M queries (those sampled), N keys. Sums are float64. A query that sees
fewer than two keys has no choice, so it is left out of every mean.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from assay.captures.inspect.scores import AttentionCall

MOST_PAIRS = 2**22  # of query and key, over rows and heads; beyond that queries are sampled
FEWEST_QUERIES = 64  # that a sample has
MAP_SIZE = 48  # cells of an attention map, at most, along either side
_QUERIES_PER_CELL = 8

PerHead = tuple[float | None, ...]


@dataclass(frozen=True, kw_only=True)
class HeadStatistics:
    """Statistics of each query head, over rows and queries; None where no query has a choice."""

    entropy: PerHead  # mean, in nats
    effective_keys: PerHead  # exp of it: the number of equally weighted keys with this entropy
    sink: PerHead  # mean weight of the first key of the sequence
    largest: PerHead  # mean of the largest weight
    score_absmax: PerHead  # over all visible pairs
    score_spread: PerHead  # median of the distance from the lowest to the highest score
    uniform_entropy: float | None  # mean of ln(visible keys): the entropy of equal weights
    uniform_sink: float | None  # mean of 1 / visible keys
    queries: int  # of each row and head that were sampled,
    of_queries: int  # out of this many
    measured: int  # queries of all rows in the means; the fewest of any head
    blind: int  # queries that see no key; the most of any head
    nonfinite: int  # queries left out for a score that is not finite; the most of any head
    padding_share: float  # of the keys: those that the mask hides from every query
    hidden_share: float  # of the pairs of query and key: those that mask and causality hide

    @property
    def sampled(self) -> bool:
        return self.queries < self.of_queries


@dataclass(frozen=True, kw_only=True, eq=False)
class AttentionMap:
    """Coarse weights of one head of one row: a cell is the mean over its queries of the sum over
    its keys, so that a row of cells sums to one."""

    head: int
    weights: np.ndarray  # [cells of queries, cells of keys]
    queries: int
    keys: int


def head_statistics(call: AttentionCall, *, most_pairs: int = MOST_PAIRS) -> HeadStatistics:
    """Statistics over all queries, or over evenly spaced ones where there are too many pairs."""
    batch, heads, queries, keys = call.sizes
    rows = _sample(queries, max(FEWEST_QUERIES, most_pairs // (batch * heads * keys)))
    first_key = call.first_key_B
    by_query = np.stack(  # [B, H, 7, M]
        [
            [_query_statistics(*call.scores(b, h, rows), first_key[b]) for h in range(heads)]
            for b in range(batch)
        ]
    )
    # Each [H, B * M]; NaN but in the last two where a query has no choice.
    entropy, sink, largest, absmax, spread, visible, finite = by_query.transpose(
        2, 1, 0, 3
    ).reshape(7, heads, -1)
    measured = ~np.isnan(entropy)
    mean_entropy = _by_head(np.mean, entropy)
    choices = visible[measured]
    return HeadStatistics(
        entropy=mean_entropy,
        effective_keys=tuple(None if e is None else float(np.exp(e)) for e in mean_entropy),
        sink=_by_head(np.mean, sink),
        largest=_by_head(np.mean, largest),
        score_absmax=_by_head(np.max, absmax),
        score_spread=_by_head(np.median, spread),
        uniform_entropy=float(np.log(choices).mean()) if choices.size else None,
        uniform_sink=float((1 / choices).mean()) if choices.size else None,
        queries=len(rows),
        of_queries=queries,
        measured=int(measured.sum(axis=1).min()),
        blind=int((visible == 0).sum(axis=1).max()),
        nonfinite=int((finite == 0).sum(axis=1).max()),
        padding_share=float(call.padding_BN.mean()),
        hidden_share=1 - int(visible.sum()) / (batch * heads * len(rows) * keys),
    )


def attention_map(
    call: AttentionCall, *, head: int, row: int = 0, size: int = MAP_SIZE
) -> AttentionMap:
    """Coarse weights of one head; at most eight queries of each cell are used."""
    _, _, queries, keys = call.sizes
    starts = np.linspace(0, keys, min(size, keys) + 1).astype(int)[:-1]
    cells = []
    for group in np.array_split(np.arange(queries), min(size, queries)):
        rows = group[_sample(len(group), _QUERIES_PER_CELL)]
        scores, visible = call.scores(row, head, rows)
        usable = visible.any(axis=1) & np.isfinite(np.where(visible, scores, 0.0)).all(axis=1)
        weights = _weights(scores[usable], visible[usable])
        mean = weights.mean(axis=0) if len(weights) else np.zeros(keys)
        cells.append(np.add.reduceat(mean, starts))
    return AttentionMap(head=head, weights=np.array(cells), queries=queries, keys=keys)


def median_head(statistics: HeadStatistics) -> int:
    """Head of median entropy; 0 where none has any. The most peaked head would make a map of one
    line, the most even one a map of none."""
    known = sorted((e, head) for head, e in enumerate(statistics.entropy) if e is not None)
    return known[(len(known) - 1) // 2][1] if known else 0


def _query_statistics(scores: np.ndarray, visible: np.ndarray, first_key: int) -> np.ndarray:
    """Entropy, weight of the first key, largest weight, largest score, spread of scores, number of
    visible keys and whether all scores are finite: [7, M] from scores and visibility [M, N]."""
    count = visible.sum(axis=1)
    finite = np.isfinite(np.where(visible, scores, 0.0)).all(axis=1)
    measured = (count >= 2) & finite
    scores, visible = scores[measured], visible[measured]
    weights = _weights(scores, visible)
    logs = np.log(weights, out=np.zeros_like(weights), where=weights > 0)
    highest = np.where(visible, scores, -np.inf).max(axis=1, initial=-np.inf)
    lowest = np.where(visible, scores, np.inf).min(axis=1, initial=np.inf)
    statistics = np.full((7, len(count)), np.nan)
    statistics[:5, measured] = (
        -(weights * logs).sum(axis=1),
        weights[:, first_key],
        weights.max(axis=1, initial=0.0),
        np.abs(np.where(visible, scores, 0.0)).max(axis=1, initial=0.0),
        highest - lowest,
    )
    statistics[5:] = count, finite
    return statistics


def _weights(scores: np.ndarray, visible: np.ndarray) -> np.ndarray:
    """Softmax over the visible keys, of which every query has at least one."""
    lowered = np.where(visible, scores, -np.inf)
    raised = np.exp(lowered - lowered.max(axis=1, keepdims=True, initial=-np.inf))
    return raised / raised.sum(axis=1, keepdims=True)


def _sample(count: int, most: int) -> np.ndarray:
    """Indices of all, or of `most` evenly spaced from the first to the last."""
    if count <= most:
        return np.arange(count)
    return np.unique(np.linspace(0, count - 1, most).round().astype(int))


def _by_head(reduce: Callable[[np.ndarray], float], values: np.ndarray) -> PerHead:
    """Each row reduced over what is not NaN; None where nothing is left."""
    rows = (row[~np.isnan(row)] for row in values)
    return tuple(float(reduce(row)) if row.size else None for row in rows)
