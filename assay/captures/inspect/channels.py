"""Channels of q, k, v or out that are far larger than the others of their head.

Axes: B batch, H heads, S positions, D channels. A few such channels of k decide the scale of a
quantised cache, which is why they are looked for head by head.
"""

from dataclasses import dataclass

import numpy as np

# A channel stands out where its largest size is so many times that of its head's median channel.
# Of normal numbers no channel comes near it; over a few tokens alone real channels often do.
OUTLIER = 5.0
FEWEST_TOKENS = 16


@dataclass(frozen=True, kw_only=True)
class OutlierChannel:
    """`times` the largest size of the head's median channel."""

    head: int
    channel: int
    absmax: float
    times: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Channels:
    """The largest size in each channel, and those that stand out, the farthest first."""

    absmax_HD: np.ndarray
    outliers: tuple[OutlierChannel, ...]
    why: str | None = None  # why outliers are not told

    @property
    def times_HD(self) -> np.ndarray:
        """Each channel's largest size over that of the median channel of its head; NaN where that
        is zero."""
        median = np.median(self.absmax_HD, axis=1, keepdims=True)
        nothing = np.full_like(self.absmax_HD, np.nan)
        return np.divide(self.absmax_HD, median, out=nothing, where=median > 0)


def channels(values_BHSD: np.ndarray) -> Channels:
    """The channels of one tensor; numbers that are not finite are passed over."""
    finite = np.isfinite(values_BHSD)
    known = values_BHSD if finite.all() else np.where(finite, values_BHSD, 0)
    highest = known.max(axis=(0, 2), initial=0.0)
    absmax = np.maximum(highest, -known.min(axis=(0, 2), initial=0.0)).astype(np.float64)
    tokens = values_BHSD.shape[0] * values_BHSD.shape[2]
    return from_absmax(absmax, tokens=tokens)


def from_absmax(absmax_HD: np.ndarray, *, tokens: int) -> Channels:
    """The same from what is largest in each channel over so many tokens."""
    if tokens < FEWEST_TOKENS:
        why = f"{tokens} tokens are too few to tell an outlier, {FEWEST_TOKENS} are needed"
        return Channels(absmax_HD=absmax_HD, outliers=(), why=why)
    times = Channels(absmax_HD=absmax_HD, outliers=()).times_HD
    found = [
        OutlierChannel(
            head=int(head),
            channel=int(channel),
            absmax=float(absmax_HD[head, channel]),
            times=float(times[head, channel]),
        )
        for head, channel in zip(*np.nonzero(times >= OUTLIER), strict=True)
    ]
    found.sort(key=lambda outlier: -outlier.times)
    return Channels(absmax_HD=absmax_HD, outliers=tuple(found))
