"""Reciprocal MLP, second form: tokens mix their hidden values by where attention looked.

hidden + c a U (W D hidden), W the block's attention weights, averaged over heads, made sparse and
normalised again, without a gradient. D is narrow and U wide again, so that a cache keeps `mx_rank`
numbers for each token; a full map would have it keep the whole hidden width.
"""

import torch
from torch import nn

from assay.kv.cache import LayerCache
from assay.kv.contract import Stream
from assay.models.gpt2.config import ModelConfig
from assay.models.gpt2.linear import linear
from assay.models.gpt2.mlp import AttentionExports, Coupling
from assay.models.gpt2.softmax_attention import visible_counts

TAG = "MX"
SLOT = "mlp_cross"
NEUTRAL = True
OPTIONS = {
    "mx_rank": {"default": 64, "tiny": 4},
    "mx_sparse": {"default": "topk", "choices": ("topk", "rms", "none")},
    "mx_k": {"default": 8, "tiny": 3},
    "mx_tau": {"default": 0.5},
}
VARIATIONS = ({"mx_sparse": "rms"}, {"mx_sparse": "none"})
_STREAM = "mx_squeezed"


def build(config: ModelConfig, layer: int, *, width: int, latent_width: int) -> "CrossToken":
    return CrossToken(config, width=width)


class CrossToken(Coupling):
    wants_weights = True

    def __init__(self, config: ModelConfig, *, width: int) -> None:
        super().__init__()
        self.sparse, self.k, self.tau = config.mx_sparse, config.mx_k, config.mx_tau
        self.squeeze = linear(config, width, config.mx_rank, bias=False)
        self.widen = linear(config, config.mx_rank, width, bias=False)
        self.alpha = nn.Parameter(torch.tensor(0.3))

    def streams(self, dtype: str) -> tuple[Stream, ...]:
        return (Stream(name=_STREAM, width=self.squeeze.out_features, dtype=dtype),)

    def enrich(
        self, hidden: torch.Tensor, exports: AttentionExports, past: LayerCache | None
    ) -> torch.Tensor:
        assert exports.weights is not None  # wants_weights says so
        squeezed = self.squeeze(hidden)  # [B, T, rank]
        if past is not None:
            squeezed = past.append({_STREAM: squeezed})[_STREAM]  # [B, S, rank]
        weights = exports.weights.detach().mean(dim=1)  # [B, T, S]
        weights = sparse(weights, self.sparse, k=self.k, tau=self.tau)
        mixed = self.widen(weights.to(squeezed.dtype) @ squeezed)  # [B, T, width]
        return hidden + self.coupling_scale * self.alpha * mixed


def sparse(weights: torch.Tensor, mode: str, *, k: int, tau: float) -> torch.Tensor:
    """Rows [B, T, S] with only the `k` largest, or those from `tau` root mean squares on."""
    if mode == "none":
        return weights
    if mode == "topk":  # by value, so that equal weights are all kept, in whatever order they lie
        largest = weights.topk(min(k, weights.shape[-1]), dim=-1, sorted=False).values
        least = largest.amin(dim=-1, keepdim=True)  # [B, T, 1]
    else:
        count = visible_counts(*weights.shape[-2:], weights.device).to(weights.dtype)  # [T, 1]
        least = tau * (weights.square().sum(dim=-1, keepdim=True) / count).sqrt()
    kept = weights.where(weights >= least, 0.0)
    return kept / kept.sum(dim=-1, keepdim=True)
