"""Added reciprocal scores: logits_ij = q_i k_j + alpha k_i q_j for the last `ra_window` tokens.

j runs over the tokens before i that are less than the window away, and i itself. The mask comes
after the sum.
"""

import torch
from torch import nn

from assay.models.gpt2.config import ModelConfig
from assay.models.gpt2.operands import Operands
from assay.models.gpt2.softmax_attention import AttentionOutput, visible

TAG = "RABAND"
SLOT = "reciprocal"
NEUTRAL = True
OPTIONS = {"ra_alpha": {"default": 0.3}, "ra_window": {"default": 64, "tiny": 5}}


def build(config: ModelConfig, layer: int) -> "BandedReciprocal":
    return BandedReciprocal(heads=config.n_head, alpha=config.ra_alpha, window=config.ra_window)


class BandedReciprocal(nn.Module):
    """`alpha` is a constant of the experiment, not learned."""

    def __init__(self, *, heads: int, alpha: float, window: int) -> None:
        super().__init__()
        self.reads = {"k": heads, "q": heads}
        self.alpha, self.window = alpha, window

    def forward(self, operands: Operands, kernel: object) -> AttentionOutput:
        scores = operands.scores(swapped=True)  # [B, H, T, S]
        new, total = scores.shape[-2:]
        near = ~visible(new, total, scores.device).tril(total - new - self.window - 1)  # [T, S]
        bias = torch.where(near, self.alpha * operands.scale * scores, 0.0)
        return operands.attend(kernel, *operands.pair(), bias=bias)

    def neutral_(self) -> None:
        self.alpha = 0.0
