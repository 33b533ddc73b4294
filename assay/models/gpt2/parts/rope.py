"""Decoupled rotary positions: some dimensions of q and k beside the latent carry the position.

After DeepSeek-V2 (arXiv 2405.04434), section 2.1.3: the rotated key is shared by all heads and
made of the token itself, so the maps out of the latent can still be absorbed. It is kept beside
the latent and its bytes are counted.
"""

import torch
from torch import nn

from assay.errors import BadInput
from assay.models.gpt2.config import RA_MLA_Config
from assay.models.gpt2.linear import linear

TAG = "ROPE"
SLOT = "positions"
NEEDS = ("kv",)
OPTIONS = {
    "rope_dims": {"default": 32, "tiny": 4},  # beside the latent
    "rope_theta": {"default": 10000.0, "latent": True},
}
EXCLUDES = {
    "reciprocal": "swapped attention scores keys against queries, of which no rotated half is kept"
}


def build(config: RA_MLA_Config, layer: int) -> "DecoupledRope":
    return DecoupledRope(config)


class DecoupledRope(nn.Module):
    """Rotated queries of every head and one rotated key for all of them."""

    def __init__(self, config: RA_MLA_Config) -> None:
        super().__init__()
        self.heads, self.dims = config.n_head, config.rope_dims
        if self.dims % 2:
            raise BadInput(f"rope_dims {self.dims} is odd; rotation turns pairs, give an even one")
        self.c_qk = linear(config, config.n_embd, (self.heads + 1) * self.dims, bias=False)
        # As whole numbers that stand for float64: floating buffers follow a model into bfloat16,
        # where positions above 256 are no longer told apart.
        turns = table(config.block_size, self.dims, config.rope_theta)
        self.register_buffer("turns", turns.view(torch.int64), persistent=False)

    def forward(self, x: torch.Tensor, start: int) -> tuple[torch.Tensor, torch.Tensor]:
        """x [B, T, E] at positions from `start` on -> queries [B, H, T, dims], key [B, T, dims]."""
        batch, tokens, _ = x.shape
        flat = self.c_qk(x).view(batch, tokens, self.heads + 1, self.dims).transpose(1, 2)
        turned = rotate(flat, self.turns[:, start : start + tokens].view(torch.float64))
        return turned[:, :-1], turned[:, -1]  # of [B, H + 1, T, dims]


def rotate(x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    """Turn x [..., T, dims] by cosines and sines [2, T, dims]; halves are pairs."""
    cos, sin = turns.to(torch.promote_types(x.dtype, torch.float32))  # each [T, dims]
    low, high = x.chunk(2, dim=-1)  # each [..., T, dims / 2]
    return (x * cos + torch.cat([-high, low], dim=-1) * sin).to(x.dtype)


def table(length: int, dims: int, theta: float) -> torch.Tensor:
    """Cosines and sines for the first `length` positions, [2, length, dims], in float64.

    Pair j turns by position / theta^(2j / dims). Su et al. 2021 (arXiv 2104.09864), section 3.2.
    """
    exponents = torch.arange(0, dims, 2, dtype=torch.float64) / dims  # [dims / 2]
    angles = torch.arange(length, dtype=torch.float64)[:, None] * theta**-exponents
    return torch.stack([angles.cos(), angles.sin()]).repeat(1, 1, 2)
