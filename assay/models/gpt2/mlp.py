"""GPT-2's MLP, opened in the middle: `up` to the hidden width, `down` again.

What couples the MLP to attention reads and changes the hidden values in between, so it works with
a dense MLP and with any other that has the two halves and a `width`.
"""

import torch
from torch import nn
from torch.nn import functional as F

from assay.models.gpt2.config import ModelConfig, mlp_width
from assay.models.gpt2.linear import linear


class DenseMLP(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.width = mlp_width(config)
        self.c_fc = linear(config, config.n_embd, self.width)
        self.c_proj = linear(config, self.width, config.n_embd, residual=True)

    def up(self, x: torch.Tensor) -> torch.Tensor:
        """[B, T, E] -> [B, T, width]."""
        return F.gelu(self.c_fc(x))

    def down(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.c_proj(hidden)
