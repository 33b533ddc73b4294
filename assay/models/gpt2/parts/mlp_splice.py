"""MLPSplice: the MLP in a narrow space, entered by a map P and left by its transpose.

y = P^T W2 gelu(W1 P x): a narrow MLP, not a compression of a wide one's activations.
"""

import torch
from torch import nn
from torch.nn import functional as F

from assay.models.gpt2.config import ModelConfig
from assay.models.gpt2.linear import linear

TAG = "M"
SLOT = "mlp"
JOINS = True
OPTIONS = {"mlp_splice_width": {"default": 256, "tiny": 8}}


def build(config: ModelConfig, layer: int) -> "MLPSplice":
    return MLPSplice(config)


class MLPSplice(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        narrow = config.mlp_splice_width
        self.width = 4 * narrow
        self.enter = linear(config, config.n_embd, narrow, bias=False)
        self.c_fc = linear(config, narrow, self.width)
        self.c_proj = linear(config, self.width, narrow, residual=True)

    def up(self, x: torch.Tensor) -> torch.Tensor:
        """[B, T, E] -> [B, T, width]."""
        return F.gelu(self.c_fc(self.enter(x)))

    def down(self, hidden: torch.Tensor) -> torch.Tensor:
        """[B, T, width] -> [B, T, E]."""
        return F.linear(self.c_proj(hidden), self.enter.weight.T)
