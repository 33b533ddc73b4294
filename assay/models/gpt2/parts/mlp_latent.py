"""Reciprocal MLP, third form: attention's latent enters the MLP, the MLP the next block's latent.

hidden + c a W latent, without a gradient to the latent; the next block adds c a W' hidden to its
new latent. Without a latent the keys of all heads take its place. `mr_tying`: W' is the transpose
of W, or a map of its own, or one of its own with a learned factor for each head's share both ways.
"""

import torch
from torch import nn
from torch.nn import functional as F

from assay.errors import BadInput
from assay.kv.cache import LayerCache
from assay.models.gpt2.config import ModelConfig
from assay.models.gpt2.linear import linear
from assay.models.gpt2.mlp import AttentionExports, Context, Coupling

TAG = "MR"
SLOT = "mlp_latent"
NEUTRAL = True
OPTIONS = {
    "mr_tying": {
        "default": "tied_transpose",
        "choices": ("tied_transpose", "untied", "per_head_scalar"),
    }
}
VARIATIONS = ({"mr_tying": "untied"}, {"mr_tying": "per_head_scalar"})


def build(config: ModelConfig, layer: int, *, width: int, latent_width: int) -> "LatentReciprocity":
    return LatentReciprocity(config, layer=layer, width=width, latent_width=latent_width)


class LatentReciprocity(Coupling):
    """The first block receives nothing and the last sends nothing, so they lack those weights."""

    def __init__(self, config: ModelConfig, *, layer: int, width: int, latent_width: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.tensor(0.2))
        self.receives, self.sends = layer > 0, layer < config.n_layer - 1
        self.to_hidden = linear(config, latent_width, width, bias=False)
        tied = config.mr_tying == "tied_transpose"
        self.to_latent = None
        if self.sends and not tied:
            self.to_latent = linear(config, width, latent_width, bias=False)
        self.share_in = self.share_out = None
        if config.mr_tying == "per_head_scalar":
            _refuse_uneven(config.n_head, width=width, latent_width=latent_width)
            self.share_in = nn.Parameter(torch.ones(config.n_head))
            self.share_out = nn.Parameter(torch.ones(config.n_head)) if self.sends else None

    def added_latent(self, context: Context) -> torch.Tensor | None:
        if not self.receives:
            return None
        return self.coupling_scale * self.alpha * context["latent"]

    def enrich(
        self, hidden: torch.Tensor, exports: AttentionExports, past: LayerCache | None
    ) -> torch.Tensor:
        added = _by_head(self.to_hidden(exports.latent.detach()), self.share_in)  # [B, T, width]
        return hidden + self.coupling_scale * self.alpha * added

    def emit(self, hidden: torch.Tensor, past: LayerCache | None) -> dict[str, torch.Tensor]:
        if not self.sends:
            return {}
        # [B, T, latent width] either way
        if self.to_latent is None:
            return {"latent": F.linear(hidden, self.to_hidden.weight.T)}
        return {"latent": _by_head(self.to_latent(hidden), self.share_out)}


def _by_head(wide: torch.Tensor, shares: torch.Tensor | None) -> torch.Tensor:
    """[B, T, n] with each head's part of n multiplied by its share [H]."""
    if shares is None:
        return wide
    return (wide.unflatten(-1, (len(shares), -1)) * shares[:, None]).flatten(-2)


def _refuse_uneven(heads: int, **widths: int) -> None:
    for name, width in widths.items():
        if width % heads:
            raise BadInput(
                f"mr_tying per_head_scalar gives each of {heads} heads a part of {name} {width}, "
                "which does not divide; change the width, or use tied_transpose"
            )
