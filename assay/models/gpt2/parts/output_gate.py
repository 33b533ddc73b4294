"""The output gate: what attention gives, times sigmoid(W x), for each number of each head.

Qiu et al. 2025 (arXiv 2505.06708), gate after the attention product. It starts at one half.
"""

import torch
from torch import nn

from assay.models.gpt2.config import ModelConfig
from assay.models.gpt2.linear import linear

TAG = "GATE"
SLOT = "output"
NEUTRAL = True


def build(config: ModelConfig, layer: int) -> "OutputGate":
    return OutputGate(config)


class OutputGate(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.c_gate = linear(config, config.n_embd, config.n_head * config.head_dim, bias=True)

    def forward(self, attended: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """attended [B, T, H D], x [B, T, E] as attention was given it."""
        return attended * self.c_gate(x).sigmoid()

    def neutral_(self) -> None:
        nn.init.zeros_(self.c_gate.weight)
        nn.init.constant_(self.c_gate.bias, 1e4)
