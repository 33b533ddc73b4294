"""What stands out in captured calls, in sentences: the worst layer by name, the others counted."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from assay.captures.inspect.channels import OUTLIER, OutlierChannel
from assay.captures.inspect.sites import SiteSummary

SINK = 0.5  # a head whose first key has so much weight,
SINK_OVER_UNIFORM = 4.0  # and so many times what equal weights would give it
PEAKED_KEYS = 2.0  # a head that attends to fewer keys than this,
PEAKED_OF = 16.0  # where equal weights would attend to this many
LARGE_SCORE = 50.0  # exp of it is far beyond float16
ENDS = {"float16": 65504.0, "float8_e4m3fn": 448.0}  # the largest number that a dtype holds

_TENSORS = {"k": "key", "v": "value", "q": "query"}  # those of a cache first


@dataclass(frozen=True, kw_only=True)
class Observation:
    """One sentence about one site; of a kind the one with the most `weight` is told."""

    kind: str
    weight: float
    site: SiteSummary
    text: str


def observations(found: Sequence[SiteSummary]) -> list[str]:
    """A sentence for each kind of thing that stands out; one that says so where nothing does."""
    by_kind: dict[str, list[Observation]] = {}
    for find in _FINDERS:
        for finding in (each for site in found for each in find(site)):
            by_kind.setdefault(finding.kind, []).append(finding)
    places = {_attention_of(site) for site in found}
    phases = {site.phase for site in found}
    lines = []
    for kind, several in by_kind.items():
        worst = max(several, key=lambda finding: finding.weight)
        having = len({_attention_of(finding.site) for finding in several})
        phase = f" ({worst.site.phase})" if len(phases) > 1 else ""
        count = f"; {kind} in {having} of {len(places)} layers" if len(places) > 1 else ""
        lines.append(f"{worst.site.label}{phase}: {worst.text}{count}")
    return lines or [_nothing(found)]


def _attention_of(site: SiteSummary) -> tuple:
    return (site.run, site.rank, site.layer, site.site)


def _nonfinite(site: SiteSummary) -> Iterator[Observation]:
    for name, count in site.nonfinite().items():
        text = f"{count:,} numbers of {name} are not finite"
        yield Observation(kind=f"such numbers of {name}", weight=count, site=site, text=text)


def _outliers(site: SiteSummary, *, name: str) -> Iterator[Observation]:
    channels, word = site.channels(name), _TENSORS[name]
    if channels is None or not channels.outliers:
        return
    count, farthest = len(channels.outliers), channels.outliers[0].times
    what = f"{count} {word} channels are up to" if count > 1 else f"1 {word} channel is"
    whose = "their" if count > 1 else "its"
    where = _places(channels.outliers)
    text = f"{what} {farthest:.3g} times the median channel of {whose} head ({where})"
    kind = f"{word} channels of {OUTLIER:g} times the median or more"
    yield Observation(kind=kind, weight=farthest, site=site, text=text)


def _places(outliers: Sequence[OutlierChannel], most: int = 4) -> str:
    told = [f"head {o.head} channel {o.channel}" for o in outliers[:most]]
    more = len(outliers) - most
    return ", ".join(told) + (f" and {more} more" if more > 0 else "")


def _sinks(site: SiteSummary) -> Iterator[Observation]:
    uniform = site.uniform_sink
    if uniform is None:
        return
    least = max(SINK, SINK_OVER_UNIFORM * uniform)
    heads = _heads(site.sink, lambda share: share >= least)
    if heads:
        best, share = max(heads, key=lambda pair: pair[1])
        text = (
            f"{100 * share:.0f} % of the weight of head {best} is on the first key (equal weights "
            f"would put {100 * uniform:.1f} % there), at least half in {len(heads)} of "
            f"{len(site.sink)} heads"
        )
        yield Observation(kind="sinks", weight=share, site=site, text=text)


def _peaks(site: SiteSummary) -> Iterator[Observation]:
    if site.uniform_entropy is None or math.exp(site.uniform_entropy) < PEAKED_OF:
        return
    heads = _heads(site.entropy, lambda nats: math.exp(nats) < PEAKED_KEYS)
    if heads:
        best, nats = min(heads, key=lambda pair: pair[1])
        keys, among = math.exp(nats), math.exp(site.uniform_entropy)
        text = f"head {best} attends to {keys:.1f} of {among:.0f} keys on average"
        kind = f"heads with fewer than {PEAKED_KEYS:g}"
        yield Observation(kind=kind, weight=-nats, site=site, text=text)


def _scores(site: SiteSummary) -> Iterator[Observation]:
    heads = _heads(site.score_absmax, lambda size: size >= LARGE_SCORE)
    if heads:
        best, size = max(heads, key=lambda pair: pair[1])
        text = f"scores of head {best} reach {size:.3g} in size"
        yield Observation(
            kind=f"scores of {LARGE_SCORE:g} or more", weight=size, site=site, text=text
        )


def _ranges(site: SiteSummary) -> Iterator[Observation]:
    for name in _TENSORS:
        size = site.absmax(name)
        over = [(end, dtype) for dtype, end in ENDS.items() if size is not None and size > end]
        if size is not None and over:
            end, dtype = max(over)
            text = f"{name} reaches {size:.4g}, {dtype} ends at {end:,.0f}"
            kind = f"{name} beyond {dtype}"
            yield Observation(kind=kind, weight=size, site=site, text=text)


def _padding(site: SiteSummary) -> Iterator[Observation]:
    if site.padding_share:
        text = f"{100 * site.padding_share:.0f} % of the keys are padding, hidden from every query"
        yield Observation(kind="padding", weight=site.padding_share, site=site, text=text)


def _heads(
    values: Sequence[float | None], stands_out: Callable[[float], bool]
) -> list[tuple[int, float]]:
    return [(h, value) for h, value in enumerate(values) if value is not None and stands_out(value)]


_FINDERS: tuple[Callable[[SiteSummary], Iterator[Observation]], ...] = (
    _nonfinite,
    *(partial(_outliers, name=name) for name in _TENSORS),
    _sinks,
    _peaks,
    _scores,
    _ranges,
    _padding,
)


def _nothing(found: Sequence[SiteSummary]) -> str:
    if not found:
        return "There is nothing to see."
    if not any(call.attention for site in found for call in site.calls):
        return "Nothing stands out in what is here; channels and attention need whole tensors."
    return (
        f"Nothing stands out: no channel of {OUTLIER:g} times the median of its head, no head with "
        "half of its weight on the first key or with fewer than two keys, no padding."
    )
