"""Summaries of sites: all captured calls of one attention module in one phase, put together."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from assay.captures.inspect.distribution import Channels, Histogram, channels_from_absmax
from assay.captures.inspect.head_statistics import HeadStatistics, PerHead
from assay.captures.inspect.summary import CallSummary, TensorSummary

_NEW_IN_EACH_STEP = ("q", "out")  # the keys and values of a cache are there again in every step


@dataclass(frozen=True, kw_only=True, eq=False)
class SiteSummary:
    """Calls of one module in one phase of one run; means over them are over their queries."""

    run: str | None
    rank: int
    layer: int | None  # None of a file, -1 where the capture did not know it
    site: str
    phase: str | None
    calls: tuple[CallSummary, ...]

    @property
    def module(self) -> tuple[str | None, int, int | None, str]:
        return (self.run, self.rank, self.layer, self.site)

    @property
    def label(self) -> str:
        """Name in a sentence."""
        return self.site if self.layer is None or self.layer < 0 else f"layer {self.layer}"

    @property
    def largest_call(self) -> CallSummary:
        """The call with the most queries and keys."""
        return max(self.calls, key=lambda call: call.pairs)

    @property
    def entropy(self) -> PerHead:
        return self._mean(lambda attention: attention.entropy)

    @property
    def sink(self) -> PerHead:
        return self._mean(lambda attention: attention.sink)

    @property
    def largest_weight(self) -> PerHead:
        return self._mean(lambda attention: attention.largest)

    @property
    def score_absmax(self) -> PerHead:
        by_head = zip(*(a.score_absmax for a in self._with_as_many_heads()), strict=True)
        known = [[size for size in sizes if size is not None] for sizes in by_head]
        return tuple(max(sizes, default=None) for sizes in known)

    @property
    def uniform_entropy(self) -> float | None:
        return _weighted_mean([(a.uniform_entropy, a.measured) for a in self._attentions()])

    @property
    def uniform_sink(self) -> float | None:
        return _weighted_mean([(a.uniform_sink, a.measured) for a in self._attentions()])

    @property
    def padding_share(self) -> float | None:
        return max((a.padding_share for a in self._attentions()), default=None)

    def magnitudes(self, name: str) -> Histogram | None:
        """Histogram of the sizes of one tensor in all calls."""
        total = None
        for tensor in self._tensors(name):
            own = tensor.log2_magnitudes
            if own is not None:
                total = own if total is None else total.plus(own)
        return total

    def channels(self, name: str) -> Channels | None:
        """Channels of one tensor over all calls that have as many as the largest."""
        entry = self.largest_call.tensors.get(name)
        if entry is None or entry.channels is None:
            return None
        shape = entry.channels.absmax_HD.shape
        absmax, tokens = [], []
        for tensor in self._tensors(name):
            if tensor.channels is not None and tensor.channels.absmax_HD.shape == shape:
                absmax.append(tensor.channels.absmax_HD)
                tokens.append(tensor.shape[0] * tensor.shape[2])
        distinct = sum(tokens) if name in _NEW_IN_EACH_STEP else max(tokens)
        return channels_from_absmax(np.max(absmax, axis=0), tokens=distinct)

    def nonfinite(self) -> dict[str, int]:
        """Count of numbers that are not finite in each tensor that has some. A mask is left out:
        it may hide keys by -inf."""
        names = dict.fromkeys(name for call in self.calls for name in call.tensors)
        counts = {
            name: sum(tensor.stats.nonfinite for tensor in self._tensors(name) if tensor.stats)
            for name in names
            if name != "mask"
        }
        return {name: count for name, count in counts.items() if count}

    def absmax(self, name: str) -> float | None:
        sizes = [tensor.stats.absmax for tensor in self._tensors(name) if tensor.stats]
        return max((size for size in sizes if size is not None), default=None)

    def _tensors(self, name: str) -> list[TensorSummary]:
        return [call.tensors[name] for call in self.calls if name in call.tensors]

    def _attentions(self) -> list[HeadStatistics]:
        return [call.attention for call in self.calls if call.attention]

    def _with_as_many_heads(self) -> list[HeadStatistics]:
        """Statistics of the calls that have as many heads as the largest."""
        largest = self.largest_call.attention
        if largest is None:
            return []
        return [a for a in self._attentions() if len(a.entropy) == len(largest.entropy)]

    def _mean(self, statistic: Callable[[HeadStatistics], PerHead]) -> PerHead:
        attentions = self._with_as_many_heads()
        weights = [a.measured for a in attentions]
        by_head = zip(*map(statistic, attentions), strict=True)
        return tuple(_weighted_mean(zip(values, weights, strict=True)) for values in by_head)


def site_summaries(calls: Iterable[CallSummary]) -> list[SiteSummary]:
    """Group calls by module and phase, in the order of the calls."""
    groups: dict[tuple, list[CallSummary]] = {}
    for call in calls:
        module = call.key.module if call.key else (None, 0, None, call.name)
        groups.setdefault((*module, call.phase), []).append(call)
    return [
        SiteSummary(run=run, rank=rank, layer=layer, site=site, phase=phase, calls=tuple(several))
        for (run, rank, layer, site, phase), several in groups.items()
    ]


def _weighted_mean(pairs: Iterable[tuple[float | None, int]]) -> float | None:
    known = [(value, weight) for value, weight in pairs if value is not None and weight]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else None
