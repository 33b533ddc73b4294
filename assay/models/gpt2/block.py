"""A block: attention, then the MLP, both behind a LayerNorm and added to the residual stream."""

from collections.abc import Iterable

import torch
from torch import nn

from assay.kv.account import CachedLayer
from assay.kv.cache import LayerCache
from assay.kv.contract import State, Stream
from assay.kv.encoding import Encoding
from assay.models.gpt2.attention import SelfAttention
from assay.models.gpt2.config import ModelConfig
from assay.models.gpt2.mlp import Context, Coupling, DenseMLP
from assay.models.gpt2.variants import Variant

COUPLINGS = ("mlp_gate", "mlp_cross", "mlp_latent")


class Block(nn.Module):
    def __init__(self, config: ModelConfig, variant: Variant, layer: int) -> None:
        super().__init__()
        self.mlp = variant.build("mlp", config, layer) or DenseMLP(config)
        latent_width = getattr(config, "d_latent", config.n_embd)
        self.couplings = nn.ModuleDict(
            {
                slot: variant.build(
                    slot, config, layer, width=self.mlp.width, latent_width=latent_width
                )
                for slot in COUPLINGS
                if slot in variant.parts
            }
        )
        wants_weights = any(coupling.wants_weights for coupling in self._coupled())
        self.ln_1 = nn.LayerNorm(config.n_embd, bias=config.bias)
        self.attn = SelfAttention(
            config, variant, layer, wants_weights=wants_weights, exports=bool(self.couplings)
        )
        self.ln_2 = nn.LayerNorm(config.n_embd, bias=config.bias)
        self.drop = nn.Dropout(config.dropout)

    def kept(
        self, dtype: str, encoding: Encoding | None = None
    ) -> tuple[tuple[Stream, ...], tuple[State, ...]]:
        """Streams of each token and states of a sequence that a cache keeps for this block, beside
        keys and values where they are kept in an encoding."""
        streams = () if encoding else self.attn.streams(dtype)
        states: tuple[State, ...] = ()
        for coupling in self._coupled():
            streams += coupling.streams(dtype)
            states += coupling.states(dtype)
        return streams, states

    def cached(self, dtype: str, encoding: Encoding | None = None) -> CachedLayer:
        """Bytes that a cache keeps for this block."""
        streams, states = self.kept(dtype, encoding)
        beside = sum(stream.bytes_per_token for stream in streams)
        fixed = sum(state.bytes for state in states)
        if encoding is None:
            return CachedLayer(per_token=beside, fixed=fixed)
        encoded, whole = (
            sum(stream.bytes_per_token for stream in self.attn.streams(dtype, layout))
            for layout in (encoding.layout, None)
        )
        return CachedLayer(
            per_token=beside + encoded,
            whole_per_token=beside + whole,
            fixed=fixed,
            residual=encoding.residual,
            block=encoding.layout.block,
        )

    def forward(
        self, x: torch.Tensor, *, context: Context, past: LayerCache | None
    ) -> tuple[torch.Tensor, Context]:
        """x [B, T, E]; `context` is what the block before made, empty for the first."""
        attended, exports = self.attn(
            self.ln_1(x),
            past=past,
            added_latent=_first(c.added_latent(context) for c in self._coupled()),
            head_factor=_first(c.head_factor(context) for c in self._coupled()),
        )
        x = x + self.drop(attended).to(x.dtype)  # the stream keeps its dtype
        hidden = self.mlp.up(self.ln_2(x))  # [B, T, MLP width]
        for coupling in self._coupled():
            hidden = coupling.enrich(hidden, exports, past)
        sent: dict[str, torch.Tensor] = {}
        for coupling in self._coupled():
            sent |= coupling.emit(hidden, past)
        return x + self.drop(self.mlp.down(hidden)).to(x.dtype), sent

    def _coupled(self) -> list[Coupling]:
        return list(self.couplings.values())  # type: ignore[arg-type]


def _first(tensors: Iterable[torch.Tensor | None]) -> torch.Tensor | None:
    """The tensor that is not None; at most one coupling gives each kind."""
    return next((tensor for tensor in tensors if tensor is not None), None)
