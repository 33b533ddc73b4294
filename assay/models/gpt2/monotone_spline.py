"""A monotone curve for each channel: straight between fixed knots, with learned slopes above 0.

It starts as the identity, goes on straight beyond the outer knots, and its inverse is exact.
"""

import torch
from torch import nn
from torch.nn import functional as F

KNOTS = (-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5)  # in deviations of what it is given
_LEAST_SLOPE = 1e-3


class MonotoneSpline(nn.Module):
    """`deviation` is what the channels spread by when training starts: there the knots lie."""

    def __init__(self, channels: int, *, deviation: float) -> None:
        super().__init__()
        self.register_buffer("knots", deviation * torch.tensor(KNOTS))
        start = torch.tensor(1 - _LEAST_SLOPE).expm1().log()  # where the slope is 1
        self.raw_slopes = nn.Parameter(start.repeat(channels, len(KNOTS) + 1))
        self.shift = nn.Parameter(torch.zeros(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., channels] -> the same shape."""
        slopes, heights = self._curve()
        segment = torch.bucketize(x.detach(), self.knots)
        left = (segment - 1).clamp(min=0)
        return self._at(heights, left) + self._at(slopes, segment) * (x - self.knots[left])

    def inverse(self, y: torch.Tensor) -> torch.Tensor:
        slopes, heights = self._curve()
        segment = (y.detach()[..., None] > heights.detach()).sum(dim=-1)
        left = (segment - 1).clamp(min=0)
        return self.knots[left] + (y - self._at(heights, left)) / self._at(slopes, segment)

    def _curve(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Slopes of all pieces [channels, K + 1], and heights at the knots [channels, K]."""
        slopes = F.softplus(self.raw_slopes) + _LEAST_SLOPE
        first = slopes[:, :1] * self.knots[0] + self.shift[:, None]
        rises = slopes[:, 1:-1] * self.knots.diff()
        return slopes, torch.cat([first, first + rises.cumsum(dim=-1)], dim=-1)

    def _at(self, table: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        """table [channels, n] at place [..., channels]."""
        return table.gather(1, place.reshape(-1, place.shape[-1]).T).T.reshape(place.shape)
