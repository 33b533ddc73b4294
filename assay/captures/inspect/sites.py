"""What the calls of one attention in one phase have in common: many steps told as one."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from assay.captures.inspect.channels import Channels, from_absmax
from assay.captures.inspect.head_statistics import HeadStatistics, PerHead
from assay.captures.inspect.histogram import Histogram
from assay.captures.inspect.summary import CallSummary

_NEW_IN_EACH = ("q", "out")


@dataclass(frozen=True, kw_only=True, eq=False)
class SiteSummary:
    """The looks at one site in one phase of one run; means over them are over their queries."""

    run: str | None
    rank: int
    layer: int | None  # None of a file, -1 where the capture did not know it
    site: str
    phase: str | None
    calls: tuple[CallSummary, ...]

    @property
    def label(self) -> str:
        """What a sentence calls it."""
        if self.layer is None or self.layer < 0:
            return self.site
        return f"layer {self.layer}"

    @property
    def largest_call(self) -> CallSummary:
        """The call with the most queries and keys."""
        return max(self.calls, key=lambda call: call.pairs)

    @property
    def entropy(self) -> PerHead:
        return self._mean(lambda found: found.entropy)

    @property
    def sink(self) -> PerHead:
        return self._mean(lambda found: found.sink)

    @property
    def largest(self) -> PerHead:
        return self._mean(lambda found: found.largest)

    @property
    def score_absmax(self) -> PerHead:
        heads = [a.score_absmax for a in self._attentions(len(self._heads()))]
        known = [[x for x in per_head if x is not None] for per_head in zip(*heads, strict=True)]
        return tuple(max(values) if values else None for values in known)

    @property
    def uniform_entropy(self) -> float | None:
        return _weighted([(a.uniform_entropy, a.measured) for a in self._attentions()])

    @property
    def uniform_sink(self) -> float | None:
        return _weighted([(a.uniform_sink, a.measured) for a in self._attentions()])

    @property
    def padding_share(self) -> float | None:
        return max((a.padding_share for a in self._attentions()), default=None)

    def magnitudes(self, name: str) -> Histogram | None:
        """The histogram of one tensor over all looks."""
        total = None
        for call in self.calls:
            own = call.tensors[name].magnitudes if name in call.tensors else None
            if own is not None:
                total = own if total is None else total.plus(own)
        return total

    def channels(self, name: str) -> Channels | None:
        """The channels of one tensor over all looks that have as many as the fullest."""
        entry = self.largest_call.tensors.get(name)
        if entry is None or entry.channels is None:
            return None
        shape = entry.channels.absmax_HD.shape
        alike = [
            own
            for call in self.calls
            if name in call.tensors
            and (own := call.tensors[name]).channels is not None
            and own.channels.absmax_HD.shape == shape
        ]
        absmax = np.max([own.channels.absmax_HD for own in alike], axis=0)  # type: ignore[union-attr]
        tokens = [own.shape[0] * own.shape[2] for own in alike]
        # Keys of a cache are there again in every step, queries are new.
        return from_absmax(absmax, tokens=sum(tokens) if name in _NEW_IN_EACH else max(tokens))

    def nonfinite(self) -> dict[str, int]:
        """How many numbers of a tensor are not finite, where any are."""
        counts: dict[str, int] = {}
        for call in self.calls:
            for name, tensor in call.tensors.items():
                if name != "mask" and tensor.stats and tensor.stats.nonfinite:
                    counts[name] = counts.get(name, 0) + tensor.stats.nonfinite
        return counts

    def absmax(self, name: str) -> float | None:
        known = [
            tensor.stats.absmax
            for call in self.calls
            if (tensor := call.tensors.get(name)) and tensor.stats
        ]
        return max((size for size in known if size is not None), default=None)

    def _heads(self) -> PerHead:
        found = self.largest_call.attention
        return found.entropy if found else ()

    def _attentions(self, heads: int | None = None) -> list[HeadStatistics]:
        found = [call.attention for call in self.calls if call.attention]
        return [a for a in found if heads is None or len(a.entropy) == heads]

    def _mean(self, of: Callable[[HeadStatistics], PerHead]) -> PerHead:
        heads = len(self._heads())
        found = [(of(a), a.measured) for a in self._attentions(heads)]
        return tuple(_weighted([(values[h], n) for values, n in found]) for h in range(heads))


def site_summaries(calls: Iterable[CallSummary]) -> list[SiteSummary]:
    """The looks, put together by run, site and phase; in order of layers."""
    groups: dict[tuple, list[CallSummary]] = {}
    for call in calls:
        key = call.key
        place = (key.run, key.rank, key.layer, key.site) if key else (None, 0, None, call.name)
        groups.setdefault((*place, call.phase), []).append(call)
    return [
        SiteSummary(run=run, rank=rank, layer=layer, site=site, phase=phase, calls=tuple(found))
        for (run, rank, layer, site, phase), found in groups.items()
    ]


def _weighted(pairs: Sequence[tuple[float | None, int]]) -> float | None:
    known = [(value, weight) for value, weight in pairs if value is not None and weight]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else None
