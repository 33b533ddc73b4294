"""Observations about captured calls, in sentences: the worst layer by name, the others counted."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from assay.captures.inspect.distribution import OUTLIER, OutlierChannel
from assay.captures.inspect.sites import SiteSummary

SINK = 0.5  # share of a head's weight that the first key has,
SINK_OVER_UNIFORM = 4.0  # and at least this many times what equal weights would give it
PEAKED_KEYS = 2.0  # a head that attends to fewer keys than this,
PEAKED_OF = 16.0  # where equal weights would attend to this many
LARGE_SCORE = 50.0  # exp of it is far beyond float16
ENDS = {"float16": 65504.0, "float8_e4m3fn": 448.0}  # the largest number that a dtype holds

_TENSORS = {"k": "key", "v": "value", "q": "query"}  # those of a cache first


class Observation(NamedTuple):
    """A sentence about one site; of each kind the one with the most `weight` is reported."""

    kind: str
    weight: float
    text: str


def observations(sites: Sequence[SiteSummary]) -> list[str]:
    """A sentence for each kind of observation; one that says so where there is none."""
    by_kind: dict[str, list[tuple[Observation, SiteSummary]]] = {}
    for observe in _OBSERVERS:
        for site in sites:
            for observation in observe(site):
                by_kind.setdefault(observation.kind, []).append((observation, site))
    modules = {site.module for site in sites}
    phases = {site.phase for site in sites}
    lines = []
    for kind, several in by_kind.items():
        worst, site = max(several, key=lambda pair: pair[0].weight)
        having = len({site.module for _, site in several})
        phase = f" ({site.phase})" if len(phases) > 1 else ""
        count = f"; {kind} in {having} of {len(modules)} layers" if len(modules) > 1 else ""
        lines.append(f"{site.label}{phase}: {worst.text}{count}")
    return lines or [_nothing(sites)]


def _nonfinite(site: SiteSummary) -> Iterator[Observation]:
    for name, count in site.nonfinite().items():
        numbers, are = ("number", "is") if count == 1 else ("numbers", "are")
        text = f"{count:,} {numbers} of {name} {are} not finite"
        yield Observation(f"non-finite {name}", count, text)


def _outliers(site: SiteSummary, *, name: str) -> Iterator[Observation]:
    channels, word = site.channels(name), _TENSORS[name]
    if channels is None or not channels.outliers:
        return
    count, largest = len(channels.outliers), channels.outliers[0].times
    several = f"{count} {word} channels are up to" if count > 1 else f"1 {word} channel is"
    whose = "their" if count > 1 else "its"
    yield Observation(
        f"{word} channels of {OUTLIER:g} times the median or more",
        largest,
        f"{several} {largest:.3g} times the median channel of {whose} head "
        f"({_places(channels.outliers)})",
    )


def _places(outliers: Sequence[OutlierChannel], most: int = 4) -> str:
    named = [f"head {o.head} channel {o.channel}" for o in outliers[:most]]
    more = len(outliers) - most
    return ", ".join(named) + (f" and {more} more" if more > 0 else "")


def _sinks(site: SiteSummary) -> Iterator[Observation]:
    uniform = site.uniform_sink
    if uniform is None:
        return
    least = max(SINK, SINK_OVER_UNIFORM * uniform)
    heads = _heads(site.sink, lambda share: share >= least)
    if heads:
        head, share = max(heads, key=lambda pair: pair[1])
        text = (
            f"{100 * share:.0f} % of the weight of head {head} is on the first key (equal weights "
            f"would put {100 * uniform:.1f} % there), at least half in {len(heads)} of "
            f"{len(site.sink)} heads"
        )
        yield Observation("sinks", share, text)


def _peaks(site: SiteSummary) -> Iterator[Observation]:
    if site.uniform_entropy is None or math.exp(site.uniform_entropy) < PEAKED_OF:
        return
    heads = _heads(site.entropy, lambda nats: math.exp(nats) < PEAKED_KEYS)
    if heads:
        head, nats = min(heads, key=lambda pair: pair[1])
        keys, visible = math.exp(nats), math.exp(site.uniform_entropy)
        text = f"head {head} attends to {keys:.1f} of {visible:.0f} keys on average"
        yield Observation(f"heads with fewer than {PEAKED_KEYS:g}", -nats, text)


def _scores(site: SiteSummary) -> Iterator[Observation]:
    heads = _heads(site.score_absmax, lambda size: size >= LARGE_SCORE)
    if heads:
        head, size = max(heads, key=lambda pair: pair[1])
        text = f"scores of head {head} reach a magnitude of {size:.3g}"
        yield Observation(f"scores of {LARGE_SCORE:g} or more", size, text)


def _ranges(site: SiteSummary) -> Iterator[Observation]:
    for name in _TENSORS:
        size = site.absmax(name) or 0.0
        exceeded = [(end, dtype) for dtype, end in ENDS.items() if size > end]
        if exceeded:
            end, dtype = max(exceeded)
            text = f"{name} reaches {size:.4g}, {dtype} ends at {end:,.0f}"
            yield Observation(f"{name} beyond {dtype}", size, text)


def _padding(site: SiteSummary) -> Iterator[Observation]:
    if share := site.padding_share:
        text = f"{100 * share:.0f} % of the keys are padding, hidden from every query"
        yield Observation("padding", share, text)


def _heads(
    values: Sequence[float | None], remarkable: Callable[[float], bool]
) -> list[tuple[int, float]]:
    return [(h, value) for h, value in enumerate(values) if value is not None and remarkable(value)]


_OBSERVERS: tuple[Callable[[SiteSummary], Iterator[Observation]], ...] = (
    _nonfinite,
    *(partial(_outliers, name=name) for name in _TENSORS),
    _sinks,
    _peaks,
    _scores,
    _ranges,
    _padding,
)


def _nothing(sites: Sequence[SiteSummary]) -> str:
    if not sites:
        return "Nothing was captured."
    if not any(call.attention for site in sites for call in site.calls):
        return "Nothing stands out in what is here; channels and attention need whole tensors."
    return (
        f"Nothing stands out: no channel of {OUTLIER:g} times the median of its head, no head with "
        "half of its weight on the first key or with fewer than two keys, no padding."
    )
