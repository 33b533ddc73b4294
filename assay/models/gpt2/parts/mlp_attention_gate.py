"""Reciprocal MLP, first form: the hidden values gate the heads of the next block's attention.

g = sigmoid(W2 m), m the running mean of W1 hidden over the tokens so far: a mean over all tokens
would show each one its future. The next block multiplies its heads by 1 - c a + c a g, which is
what gating its attention weights row by row comes to.
"""

import torch
from torch import nn

from assay.kv.cache import LayerCache
from assay.kv.contract import State
from assay.models.gpt2.config import ModelConfig
from assay.models.gpt2.linear import linear
from assay.models.gpt2.mlp import Context, Coupling

TAG = "MG"
SLOT = "mlp_gate"
NEUTRAL = True
OPTIONS = {"mg_width": {"default": 64, "tiny": 4}}
_SUM = "mg_sum"


def build(config: ModelConfig, layer: int, *, width: int, latent_width: int) -> "AttentionGate":
    return AttentionGate(config, width=width, layer=layer)


class AttentionGate(Coupling):
    """The first block receives nothing and the last sends nothing, so they lack those weights."""

    def __init__(self, config: ModelConfig, *, width: int, layer: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.tensor(0.1)) if layer > 0 else None
        self.squeeze = self.gate = None
        if layer < config.n_layer - 1:
            self.squeeze = linear(config, width, config.mg_width, bias=False)
            self.gate = linear(config, config.mg_width, config.n_head, bias=True)
            nn.init.constant_(self.gate.bias, 2.0)

    def states(self, dtype: str) -> tuple[State, ...]:
        if self.squeeze is None:
            return ()
        # A sum over a long sequence would lose its last terms in half precision.
        wide = dtype if dtype == "float64" else "float32"
        return (State(name=_SUM, width=self.squeeze.out_features, dtype=wide),)

    def head_factor(self, context: Context) -> torch.Tensor | None:
        if self.alpha is None:
            return None
        share = self.coupling_scale * self.alpha
        return (1 - share) + share * context["head_gate"]

    def emit(self, hidden: torch.Tensor, past: LayerCache | None) -> dict[str, torch.Tensor]:
        if self.squeeze is None:
            return {}
        wide = torch.promote_types(hidden.dtype, torch.float32)
        # Tokens last, so that a row lies together: sums are several times as fast.
        sums = self.squeeze(hidden).transpose(1, 2).to(wide)  # [B, mg_width, T]
        if hidden.shape[1] > 1:
            sums = sums.contiguous().cumsum(dim=-1)
        counts = torch.arange(1, hidden.shape[1] + 1, device=hidden.device, dtype=wide)  # [T]
        if past is not None:
            sums = sums + past.states[_SUM][..., None]
            counts = counts + past.start
            past.replace_state(_SUM, sums[..., -1])
        gates = self.gate((sums / counts).transpose(1, 2).to(hidden.dtype)).sigmoid()  # [B, T, H]
        return {"head_gate": gates.transpose(1, 2)[..., None]}  # [B, H, T, 1]
