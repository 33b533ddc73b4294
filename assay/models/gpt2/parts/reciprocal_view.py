"""A gated extra view: swapped attention of a few heads, added to what the layer gives.

y + tanh(beta) LN(P r), where r is the swapped attention of the last heads of some middle layers
and beta starts at 0, so that the model starts as its baseline exactly.
"""

import torch
from torch import nn

from assay.errors import BadInput
from assay.models.gpt2.config import ModelConfig, layer_set
from assay.models.gpt2.linear import linear
from assay.models.gpt2.operands import Operands
from assay.models.gpt2.softmax_attention import AttentionOutput, fused

TAG = "RAVIEW"
SLOT = "reciprocal"
NEUTRAL = True
OPTIONS = {
    "ra_view_layers": {"default": "middle:3", "layers": True},
    "ra_view_heads": {"default": 1},
}


def build(config: ModelConfig, layer: int) -> "ExtraView | None":
    chosen = layer_set(config.ra_view_layers, config.n_layer, option="ra_view_layers")
    return ExtraView(config) if layer in chosen else None


class ExtraView(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        heads = config.ra_view_heads
        if heads > config.n_head:
            raise BadInput(f"ra_view_heads {heads} is more than the model's {config.n_head} heads")
        self.reads = {"k": config.n_head, "q": heads}
        self.heads = slice(config.n_head - heads, None)
        wide = config.n_head * config.head_dim
        self.project = linear(config, heads * config.head_dim, wide)
        self.norm = nn.LayerNorm(wide, bias=config.bias)
        self.beta = nn.Parameter(torch.zeros(()))

    def forward(self, operands: Operands, kernel: object) -> AttentionOutput:
        standard = operands.attend(kernel, *operands.pair())
        pair = operands.pair(swapped=True, heads=self.heads)
        swapped = operands.attend(_without_dropout, *pair, heads=self.heads).out  # [B, h, T, D]
        batch, heads, tokens, dim = standard.out.shape
        extra = self.norm(self.project(swapped.transpose(1, 2).flatten(2)))  # [B, T, H D]
        extra = extra.view(batch, tokens, heads, dim).transpose(1, 2)  # [B, H, T, D]
        return AttentionOutput(standard.out + self.beta.tanh() * extra, standard.weights)

    def neutral_(self) -> None:
        nn.init.zeros_(self.beta)


def _without_dropout(q, k, v, *, scale, bias, training) -> AttentionOutput:  # noqa: ANN001
    """A kernel in training too: the extra view is a difference, which noise would drown."""
    return fused(q, k, v, scale=scale, bias=bias)
