"""KVSplice: of each latent a shorter code is kept, made and undone by learned maps.

code = C g(latent), then latent' = g^-1(D code), with g an affine map or a monotone spline for each
channel. C starts with orthonormal rows and D as its transpose. The code may pass a LayerNorm. An
affine g before a linear map adds nothing that C and D cannot learn: it is here because published
figures have it; the spline is what differs.
"""

from math import sqrt

import torch
from torch import nn
from torch.nn import functional as F

from assay.models.gpt2_config import RA_MLA_Config, layer_set
from assay.models.gpt2_linear import DEVIATION
from assay.models.monotone_spline import MonotoneSpline

TAG = "KV"
SLOT = "splice"
NEEDS = ("kv",)
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
        return self.norm(self.encoder(self.transform(latent))).to(latent.dtype)

    def expand(self, code: torch.Tensor) -> torch.Tensor:
        """[B, T, C] -> [B, T, R]."""
        return self.transform.inverse(self.decoder(code))

    def expansion(self) -> tuple[torch.Tensor, torch.Tensor] | None:
        """`expand` as a matrix [R, C] and an offset [R] or (); None where it is not affine."""
        if isinstance(self.transform, MonotoneSpline):
            return None
        if isinstance(self.transform, Unchanged):
            return self.decoder.weight, self.decoder.weight.new_zeros(())
        scale, offset = self.transform.affine_inverse()
        return self.decoder.weight * scale[:, None], offset


class Affine(nn.Module):
    """x softplus(scale) + shift for each channel, softplus(1) = 1.31 at the start."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(channels))
        self.shift = nn.Parameter(torch.zeros(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * F.softplus(self.scale) + self.shift

    def inverse(self, y: torch.Tensor) -> torch.Tensor:
        scale, offset = self.affine_inverse()
        return y * scale + offset

    def affine_inverse(self) -> tuple[torch.Tensor, torch.Tensor]:
        scale = 1 / F.softplus(self.scale)
        return scale, -self.shift * scale


class Unchanged(nn.Module):
    """No transform."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x

    inverse = forward


def _transform(config: RA_MLA_Config) -> nn.Module:
    if config.splice_transform == "spline":
        # A normalised input through a fresh map spreads by this.
        return MonotoneSpline(config.d_latent, deviation=DEVIATION * sqrt(config.n_embd))
    return Affine(config.d_latent) if config.splice_transform == "affine" else Unchanged()
