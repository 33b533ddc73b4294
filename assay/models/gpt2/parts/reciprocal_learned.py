"""Learned reciprocal attention: a layer mixes both views, y = (1 - p) A v + p A' v.

A' is the softmax of the masked transpose: scores are transposed before they are masked, for the
transpose of masked scores shows each token its future. Training and evaluation use the same mix.
"""

import torch
from torch import nn

from assay.models.gpt2.config import ModelConfig
from assay.models.gpt2.operands import Operands
from assay.models.gpt2.softmax_attention import AttentionOutput

TAG = "RALEARN"
SLOT = "reciprocal"
NEUTRAL = True


def build(config: ModelConfig, layer: int) -> "LearnedReciprocal":
    return LearnedReciprocal(config.n_head)


class LearnedReciprocal(nn.Module):
    """p = sigmoid(logit) for the layer, one half at the start."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.reads = {"k": heads, "q": heads}
        self.logit = nn.Parameter(torch.zeros(()))

    def forward(self, operands: Operands, kernel: object) -> AttentionOutput:
        standard = operands.attend(kernel, *operands.pair())
        swapped = operands.attend(kernel, *operands.pair(swapped=True))
        share = self.logit.sigmoid()  # one number
        out = (1 - share) * standard.out + share * swapped.out
        if standard.weights is None:
            return AttentionOutput(out)
        return AttentionOutput(out, (1 - share) * standard.weights + share * swapped.weights)

    def neutral_(self) -> None:
        nn.init.constant_(self.logit, -1e4)
