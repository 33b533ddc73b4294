"""Decoupled rotary positions: some dimensions of q and k beside the latent carry the position.

After DeepSeek-V2 (arXiv 2405.04434), section 2.1.3: the rotated key is shared by all heads and
made of the token itself, so the maps out of the latent can still be absorbed. It is kept beside
the latent and its bytes are counted.
"""

import torch
from torch import nn

from assay.errors import BadInput
from assay.models.gpt2_config import RA_MLA_Config
from assay.models.gpt2_linear import linear

TAG = "ROPE"
SLOT = "positions"
NEEDS = ("kv",)
EXCLUDES = {
    "reciprocal": "swapped attention scores keys against queries, of which no rotated half is kept"
}


def build(config: RA_MLA_Config, layer: int) -> "DecoupledRope":
    return DecoupledRope(config)


class DecoupledRope(nn.Module):
    """Rotated queries of every head and one rotated key for all of them."""

    def __init__(self, config: RA_MLA_Config) -> None:
        super().__init__()
        self.heads, self.dims, self.theta = config.n_head, config.rope_dims, config.rope_theta
        if self.dims % 2:
            raise BadInput(f"rope_dims {self.dims} is odd; rotation turns pairs, give an even one")
        self.c_q = linear(config, config.n_embd, self.heads * self.dims, bias=False)
        self.c_k = linear(config, config.n_embd, self.dims, bias=False)

    def queries(self, x: torch.Tensor, start: int) -> torch.Tensor:
        """x [B, T, E] at positions from `start` on -> [B, H, T, dims]."""
        batch, tokens, _ = x.shape
        q = self.c_q(x).view(batch, tokens, self.heads, self.dims).transpose(1, 2)
        return rotate(q, start, self.theta)

    def key(self, x: torch.Tensor, start: int) -> torch.Tensor:
        """[B, T, E] -> [B, T, dims]."""
        return rotate(self.c_k(x), start, self.theta)


def rotate(x: torch.Tensor, start: int, theta: float) -> torch.Tensor:
    """Turn x [..., T, dims] by its positions, from `start` on; halves are pairs.

    Pair j turns by position / theta^(2j / dims). Su et al. 2021 (arXiv 2104.09864), section 3.2.
    """
    tokens, dims = x.shape[-2:]
    wide = torch.promote_types(x.dtype, torch.float32)
    exponents = torch.arange(0, dims, 2, device=x.device, dtype=wide) / dims
    positions = torch.arange(start, start + tokens, device=x.device, dtype=wide)
    angles = positions[:, None] * theta**-exponents
    cos, sin = angles.cos(), angles.sin()
    low, high = x.to(wide).chunk(2, dim=-1)
    return torch.cat([low * cos - high * sin, high * cos + low * sin], dim=-1).to(x.dtype)
