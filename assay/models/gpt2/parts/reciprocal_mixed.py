"""Score mixing: each head mixes scores, their transpose and a score of the key alone.

logits = w_std S + w_rec S' + w_key d, then the mask, with w = softmax of three learned numbers for
each head, S'[i, j] = k_i q_j and d_j = u k_j. The mean over keys that some subtract from d is the
same for a whole row and leaves the softmax as it is.
"""

import torch
from torch import nn

from assay.models.gpt2.config import ModelConfig
from assay.models.gpt2.linear import DEVIATION
from assay.models.gpt2.operands import Operands
from assay.models.gpt2.softmax_attention import AttentionOutput

TAG = "RAMIX"
SLOT = "reciprocal"
NEUTRAL = True
START = (2.2, 0.6, 0.1)  # shares of 0.76, 0.15 and 0.09


def build(config: ModelConfig, layer: int) -> "MixedScores":
    return MixedScores(heads=config.n_head, head_dim=config.head_dim)


class MixedScores(nn.Module):
    """For each head three shares and a vector u."""

    def __init__(self, *, heads: int, head_dim: int) -> None:
        super().__init__()
        self.reads = {"k": heads, "q": heads}
        self.shares = nn.Parameter(torch.tensor(START).repeat(heads, 1))  # [H, 3]
        self.u = nn.Parameter(DEVIATION * torch.randn(heads, head_dim))  # [H, D]

    def forward(self, operands: Operands, kernel: object) -> AttentionOutput:
        # [H, 1, 1] each
        standard, swapped, alone = self.shares.softmax(dim=-1)[:, :, None, None].unbind(1)
        probe = alone * self.u[:, None] / operands.scale  # [H, 1, D]; scores are scaled later
        rows, columns, bias = operands.mixed(standard, swapped, probe)
        return operands.attend(kernel, rows, columns, bias=bias)

    def neutral_(self) -> None:
        with torch.no_grad():
            self.shares.copy_(torch.tensor((0.0, -1e4, -1e4)))
