"""GPT-2's MLP, opened in the middle, and what couples an MLP to attention.

`up` leads to the hidden width, `down` back. A coupling is a part that reads and changes the hidden
values in between, so it works with a dense MLP and with any other that has the two halves and a
`width`. Nothing of it is kept on a module from one call to the next: a block is handed what the
block before it made, and returns what it makes for the one behind; the first is handed nothing.

B batch, H heads, T new tokens, S tokens in all, E width of the model.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from assay.kv.cache import LayerCache
from assay.kv.contract import State, Stream
from assay.models.gpt2.config import ModelConfig, mlp_width
from assay.models.gpt2.linear import linear

Context = Mapping[str, torch.Tensor]  # what a block sends to the next, by name


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
        """[B, T, width] -> [B, T, E]."""
        return self.c_proj(hidden)


class AttentionExports(NamedTuple):
    """Results of attention that the MLP of its block may read."""

    latent: torch.Tensor  # [B, T, latent width], of the new tokens, before any codec
    weights: torch.Tensor | None  # [B, H, T, S], where a coupling wants them


class Coupling(nn.Module):
    """A coupling that does nothing; a part overrides what it needs."""

    wants_weights = False

    def __init__(self) -> None:
        super().__init__()
        # A trainer may raise it from 0 to 1 in its first steps: model.set_coupling(share).
        self.register_buffer("coupling_scale", torch.ones(()))

    def streams(self, dtype: str) -> tuple[Stream, ...]:
        """Streams that it keeps of each token."""
        return ()

    def states(self, dtype: str) -> tuple[State, ...]:
        """States that it keeps of a sequence, whatever its length."""
        return ()

    def added_latent(self, context: Context) -> torch.Tensor | None:
        """Addition of the block before to the new latents, [B, T, latent width]."""
        return None

    def head_factor(self, context: Context) -> torch.Tensor | None:
        """Factor of the outputs of heads that the block before sends, [B, H, T, 1]."""
        return None

    def enrich(
        self, hidden: torch.Tensor, exports: AttentionExports, past: LayerCache | None
    ) -> torch.Tensor:
        """The hidden values of the MLP, [B, T, width], with what attention adds to them."""
        return hidden

    def emit(self, hidden: torch.Tensor, past: LayerCache | None) -> dict[str, torch.Tensor]:
        """Tensors for the next block, by name."""
        return {}

    def neutral_(self) -> None:
        self.coupling_scale.zero_()
