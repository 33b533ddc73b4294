"""RA-CT: the spread of a token's attention decides how much of it counts.

A statistic of the row of weights (the largest `ct_k` together, the largest, the entropy, the root
mean square) becomes a gate g = sigmoid(scale s + bias) for each head, near 1 at the start. On
`output` it multiplies what the head gives by (1 - alpha) + alpha g; on `weights` it multiplies the
scores before the softmax by the same, a temperature for each row. Gating the weights after the
softmax would be the first again. The entropy is divided by its largest value for the number of
keys seen, and the mean square is taken over keys that are seen: a row's length is no signal.
"""

import torch
from torch import nn
from torch.nn import functional as F

from assay.models.gpt2.config import ModelConfig
from assay.models.gpt2.softmax_attention import (
    AttentionOutput,
    average,
    hide_future,
    scaled_scores,
    visible_counts,
)

TAG = "RACT"
SLOT = "gating"
NEUTRAL = True
OPTIONS = {
    "ct_mode": {"default": "topk", "choices": ("topk", "max", "entropy", "rms")},
    "ct_apply": {"default": "output", "choices": ("output", "weights")},
    "ct_alpha": {"default": 0.2, "between": (0, 1)},
    "ct_k": {"default": 8, "tiny": 3},
    "ct_head_average": {"default": False},
    "ct_detach_stats": {"default": False},
}
VARIATIONS = (
    {"ct_mode": "max"},
    {"ct_mode": "entropy"},
    {"ct_mode": "rms"},
    {"ct_apply": "weights"},
    {"ct_mode": "entropy", "ct_apply": "weights", "ct_detach_stats": True},
    {"ct_head_average": True},
)


def build(config: ModelConfig, layer: int) -> "CrossTokenGate":
    return CrossTokenGate(config)


class CrossTokenGate(nn.Module):
    """A kernel: called as SoftmaxAttention is, with its weights in memory."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.mode, self.apply_to, self.alpha = config.ct_mode, config.ct_apply, config.ct_alpha
        self.k, self.dropout = config.ct_k, config.dropout
        self.head_average, self.detach_stats = config.ct_head_average, config.ct_detach_stats
        self.gate_scale = nn.Parameter(torch.ones(config.n_head))
        self.gate_bias = nn.Parameter(torch.full((config.n_head,), 2.0))

    def forward(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        *,
        scale: float,
        bias: torch.Tensor | None = None,
        training: bool = False,
    ) -> AttentionOutput:
        scores = scaled_scores(q, k, scale=scale, bias=bias)  # [B, H, T, S]
        weights = hide_future(scores).softmax(dim=-1)
        factor = (1 - self.alpha) + self.alpha * self.gate(weights)  # [B, H, T, 1]
        if self.apply_to == "weights":  # hidden after the product: -inf has no gradient to give it
            weights = hide_future(scores * factor).softmax(dim=-1)
        kept = weights.to(q.dtype)
        out = average(F.dropout(kept, self.dropout if training else 0.0), v)  # [B, H, T, D]
        return AttentionOutput(out, kept, factor.to(q.dtype) if self.apply_to == "output" else None)

    def gate(self, weights: torch.Tensor) -> torch.Tensor:
        """weights [B, H, T, S] -> gates in (0, 1), [B, H, T, 1]."""
        if self.detach_stats:
            weights = weights.detach()
        if self.head_average:
            weights = weights.mean(dim=1, keepdim=True)
        row = statistic(weights, self.mode, self.k)  # [B, H or 1, T, 1]
        return (self.gate_scale[:, None, None] * row + self.gate_bias[:, None, None]).sigmoid()

    def neutral_(self) -> None:
        self.alpha = 0.0


def statistic(weights: torch.Tensor, mode: str, k: int) -> torch.Tensor:
    """One number for each row of weights [..., T, S]: [..., T, 1]."""
    new, total = weights.shape[-2:]
    if mode == "max":
        return weights.amax(dim=-1, keepdim=True)
    if mode == "topk":
        return weights.topk(min(k, total), dim=-1, sorted=False).values.sum(dim=-1, keepdim=True)
    count = visible_counts(new, total, weights.device).to(weights.dtype)  # [T, 1]
    if mode == "rms":
        return (weights.square().sum(dim=-1, keepdim=True) / count).sqrt()
    # The slope of w log w at 0 is infinite, and hidden tokens have weight 0.
    logarithms = weights.clamp(min=torch.finfo(weights.dtype).tiny).log()
    entropy = -(weights * logarithms).sum(dim=-1, keepdim=True)
    return entropy / count.clamp(min=2).log()  # a row of one key has no entropy
