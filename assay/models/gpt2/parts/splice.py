"""KVSplice: of each latent a shorter code is kept, made and undone by learned maps.

code = C g(latent), then latent' = g^-1(D code), with g an affine map or a monotone spline for each
channel. C starts with orthonormal rows and D as its transpose. The code may pass a LayerNorm. An
affine g before a linear map adds nothing that C and D cannot learn: it is here because published
figures have it; the spline is what differs.
"""

from dataclasses import dataclass
from math import sqrt

import torch
from torch import nn
from torch.nn import functional as F

from assay.models.gpt2.config import RA_MLA_Config, layer_set
from assay.models.gpt2.linear import DEVIATION

KNOTS = (-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5)  # of a spline, in deviations of its input
_LEAST_SLOPE = 1e-3

TAG = "KV"
SLOT = "splice"
NEEDS = ("kv",)
OPTIONS = {
    "splice_ratio": {"default": 0.5, "between": (0, 1)},  # the kept fraction of a latent
    "splice_transform": {"default": "affine", "choices": ("affine", "spline", "none")},
    "splice_norm": {"default": False},
    "splice_layers": {"default": "all", "layers": True},
}
VARIATIONS = (
    {"splice_transform": "spline"},
    {"splice_transform": "none", "splice_norm": True},
    {"splice_layers": "last:1"},
    {"splice_ratio": 1.0},
)


def build(config: RA_MLA_Config, layer: int) -> "Splice | None":
    """The codec of one latent of this layer; None where the layer keeps its latents whole."""
    chosen = layer_set(config.splice_layers, config.n_layer, option="splice_layers")
    return Splice(config) if layer in chosen else None


class Splice(nn.Module):
    """B batch, T tokens, R latent width, C code width."""

    def __init__(self, config: RA_MLA_Config) -> None:
        super().__init__()
        wide = config.d_latent
        self.code_width = max(1, round(wide * config.splice_ratio))
        self.transform = _transform(config)
        self.encoder = nn.Linear(wide, self.code_width, bias=False)
        self.decoder = nn.Linear(self.code_width, wide, bias=False)
        self.norm = nn.LayerNorm(self.code_width) if config.splice_norm else nn.Identity()
        nn.init.orthogonal_(self.encoder.weight)
        with torch.no_grad():
            self.decoder.weight.copy_(self.encoder.weight.T)

    def compress(self, latent: torch.Tensor) -> torch.Tensor:
        """[B, T, R] -> [B, T, C]."""
        if isinstance(self.transform, MonotoneSpline):
            return self.norm(self.encoder(self.transform(latent))).to(latent.dtype)
        return self.ready().compress(latent)

    def expand(self, code: torch.Tensor) -> torch.Tensor:
        """[B, T, C] -> [B, T, R]."""
        if isinstance(self.transform, MonotoneSpline):
            return self.transform.inverse(self.decoder(code))
        return self.ready().expand(code)

    def expansion(self) -> None:
        """A matrix and an offset that `expand`; a codec that is made ready has them, if any."""
        return None

    def ready(self) -> "Splice | AffineSplice":
        """The same with these weights, for many calls: one affine map each way, where it is one."""
        if isinstance(self.transform, MonotoneSpline):
            return self
        return AffineSplice(
            before=self.transform.before(self.encoder.weight),
            after=self.transform.after(self.decoder.weight),
            norm=self.norm,
        )


@dataclass(frozen=True, kw_only=True)
class AffineSplice:
    """A codec as two affine maps: a matrix, and an offset or None for 0."""

    before: tuple[torch.Tensor, torch.Tensor | None]  # [C, R] and [C]
    after: tuple[torch.Tensor, torch.Tensor | None]  # [R, C] and [R]
    norm: nn.Module

    @property
    def code_width(self) -> int:
        return self.before[0].shape[0]

    def compress(self, latent: torch.Tensor) -> torch.Tensor:
        return self.norm(F.linear(latent, *self.before)).to(latent.dtype)

    def expand(self, code: torch.Tensor) -> torch.Tensor:
        return F.linear(code, *self.after)

    def expansion(self) -> tuple[torch.Tensor, torch.Tensor | None]:
        return self.after


class Affine(nn.Module):
    """x softplus(scale) + shift for each channel, softplus(1) = 1.31 at the start.

    A linear map before or after it makes one affine map with it: a matrix and an offset.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(channels))
        self.shift = nn.Parameter(torch.zeros(channels))

    def slopes(self) -> torch.Tensor:
        """The factor of each channel, [channels, 1]."""
        return F.softplus(self.scale)[:, None]

    def before(self, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """weight (x softplus(scale) + shift)."""
        return weight * F.softplus(self.scale), weight @ self.shift

    def after(self, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(weight x - shift) / softplus(scale)."""
        scale = 1 / F.softplus(self.scale)
        return weight * scale[:, None], -self.shift * scale


class Unchanged(nn.Module):
    """No transform."""

    def before(self, weight: torch.Tensor) -> tuple[torch.Tensor, None]:
        return weight, None

    after = before


class MonotoneSpline(nn.Module):
    """A monotone curve for each channel, straight between fixed knots, with learned slopes above 0.

    It starts as the identity, goes on straight beyond the outer knots, and its inverse is exact.
    `deviation` is what the channels spread by when training starts: there the K knots lie.
    """

    def __init__(self, channels: int, *, deviation: float) -> None:
        super().__init__()
        self.register_buffer("knots", deviation * torch.tensor(KNOTS))  # [K]
        start = torch.tensor(1 - _LEAST_SLOPE).expm1().log()  # where the slope is 1
        self.raw_slopes = nn.Parameter(start.repeat(channels, len(KNOTS) + 1))
        self.shift = nn.Parameter(torch.zeros(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., channels] -> the same shape."""
        slopes, heights = self._curve()
        segment = torch.bucketize(x.detach(), self.knots)  # [..., channels], 0 to K
        left = (segment - 1).clamp(min=0)
        return _at(heights, left) + _at(slopes, segment) * (x - self.knots[left])

    def inverse(self, y: torch.Tensor) -> torch.Tensor:
        """[..., channels] -> the same shape."""
        slopes, heights = self._curve()
        segment = (y.detach()[..., None] > heights.detach()).sum(dim=-1)  # [..., channels]
        left = (segment - 1).clamp(min=0)
        return self.knots[left] + (y - _at(heights, left)) / _at(slopes, segment)

    def slopes(self) -> torch.Tensor:
        """Slopes of all pieces, [channels, K + 1]."""
        return F.softplus(self.raw_slopes) + _LEAST_SLOPE

    def _curve(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Slopes of all pieces [channels, K + 1], and heights at the knots [channels, K]."""
        slopes = self.slopes()
        first = slopes[:, :1] * self.knots[0] + self.shift[:, None]  # [channels, 1]
        rises = slopes[:, 1:-1] * self.knots.diff()  # [channels, K - 1]
        return slopes, torch.cat([first, first + rises.cumsum(dim=-1)], dim=-1)


def _at(table: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    """Entries of table [channels, n] at place [..., channels]."""
    return table.gather(1, place.reshape(-1, place.shape[-1]).T).T.reshape(place.shape)


def _transform(config: RA_MLA_Config) -> nn.Module:
    if config.splice_transform == "spline":
        # A normalised input through a fresh map spreads by this.
        return MonotoneSpline(config.d_latent, deviation=DEVIATION * sqrt(config.n_embd))
    return Affine(config.d_latent) if config.splice_transform == "affine" else Unchanged()
