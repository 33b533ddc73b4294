"""What passes between a block's attention and its MLP, and from a block to the next.

A coupling is a part that sits between them. Nothing of it is kept on a module from one call to
the next: a block is handed what the block before it made, and returns what it makes for the one
behind; the first is handed nothing.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import nn

from assay.kv.cache import LayerCache
from assay.kv.contract import State, Stream

Context = Mapping[str, torch.Tensor]


class AttentionExports(NamedTuple):
    """What attention leaves for the MLP of its block."""

    latent: torch.Tensor  # [B, T, latent width], of the new tokens, before any codec
    weights: torch.Tensor | None  # [B, H, T, S], where a coupling wants them


class Coupling(nn.Module):
    """One that does nothing; a part overrides what it needs."""

    wants_weights = False

    def __init__(self) -> None:
        super().__init__()
        # A trainer may raise it from 0 to 1 in its first steps: model.set_coupling(share).
        self.register_buffer("coupling_scale", torch.ones(()))

    def streams(self, dtype: str) -> tuple[Stream, ...]:
        """What it keeps of each token."""
        return ()

    def states(self, dtype: str) -> tuple[State, ...]:
        """What it keeps of a sequence, whatever its length."""
        return ()

    def added_latent(self, context: Context) -> torch.Tensor | None:
        """What the block before adds to the new latents, [B, T, latent width]."""
        return None

    def head_factor(self, context: Context) -> torch.Tensor | None:
        """By what the block before multiplies the outputs of heads, [B, H, T, 1]."""
        return None

    def enrich(
        self, hidden: torch.Tensor, exports: AttentionExports, past: LayerCache | None
    ) -> torch.Tensor:
        """The hidden values of the MLP, [B, T, width], with what attention adds to them."""
        return hidden

    def emit(self, hidden: torch.Tensor, past: LayerCache | None) -> dict[str, torch.Tensor]:
        """What the next block is handed."""
        return {}

    def neutral_(self) -> None:
        self.coupling_scale.zero_()
