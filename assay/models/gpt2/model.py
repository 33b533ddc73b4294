"""The one GPT-2 decoder that all variants share: embeddings, blocks made of parts, a tied head.

B batch, T new tokens, E width, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from assay.attention import decoders
from assay.errors import BadInput
from assay.kv.account import cache_bytes
from assay.kv.cache import Cache, new_cache
from assay.kv.encoding import Encoding, Kept, encodings
from assay.models.gpt2.block import Block
from assay.models.gpt2.config import GPTConfig, ModelConfig, RA_MLA_Config, completed
from assay.models.gpt2.graphed_steps import GraphedSteps, why_not
from assay.models.gpt2.linear import embedding
from assay.models.gpt2.loss import IGNORED, head_loss
from assay.models.gpt2.mlp import Context, Coupling
from assay.models.gpt2.variants import Variant, config_class


class Decoder(nn.Module):
    """The decoder that every variant is; `class_of` sets `variant` on the class."""

    variant: Variant

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        # The dtype of the residual stream; None is that of the embeddings.
        self.stream: torch.dtype | None = None
        self.wte = embedding(config.vocab_size, config.n_embd)
        self.wpe = embedding(config.block_size, config.n_embd)
        self.drop = nn.Dropout(config.dropout)
        self.h = nn.ModuleList(
            Block(config, self.variant, layer) for layer in range(config.n_layer)
        )
        self.ln_f = nn.LayerNorm(config.n_embd, bias=config.bias)
        for block in self.h:
            starts_swapped = getattr(block.attn.reciprocal, "starts_swapped", False)
            if starts_swapped and not block.attn.source.swap_roles_():
                raise BadInput(
                    f"{self.variant.name} with ra_start=swapped: its queries and keys are not "
                    "made alike, so no exchange of weights makes it GPT-2; leave it out"
                )

    def forward(
        self,
        idx: torch.Tensor,
        targets: torch.Tensor | None = None,
        cache: Cache | None = None,
    ) -> tuple[Any, ...]:
        """Logits [B, T, V] of every position and the loss, None without targets; then the cache,
        where one is passed: `idx` [B, T] are the tokens that follow those in it."""
        logits = F.linear(self.hidden(idx, cache), self.wte.weight)
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
        if cache is None:
            return logits, loss
        cache.advance(idx.shape[1])
        return logits, loss, cache

    def loss(self, idx: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The loss that `forward` gives, without logits that are kept: for training."""
        x = self.hidden(idx)
        return head_loss(x.flatten(0, 1), self.wte.weight, targets.flatten())

    def hidden(self, idx: torch.Tensor, cache: Cache | None = None) -> torch.Tensor:
        """The residual stream behind all blocks, normed: the factor of the head, [B, T, E]."""
        start = cache.length if cache else 0
        self._refuse(idx, start, cache)
        positions = torch.arange(start, start + idx.shape[1], device=idx.device)
        if cache and cache.place:
            positions = cache.place.position
        x = self.drop(self.wte(idx) + self.wpe(positions))  # [B, T, E]
        x = x.to(self.stream or x.dtype)
        context: Context = {}
        for layer, block in enumerate(self.h):
            x, context = block(x, context=context, past=cache.layers[layer] if cache else None)
        return self.ln_f(x)

    def get_num_params(self, non_embedding: bool = False) -> int:
        """All parameters; the head is the token embedding and counts once. `non_embedding` leaves
        the position embedding out."""
        count = sum(parameter.numel() for parameter in self.parameters())
        return count - self.wpe.weight.numel() if non_embedding else count

    def new_cache(
        self,
        batch: int,
        *,
        capacity: int | None = None,
        dtype: torch.dtype | None = None,
        layout: Kept | Sequence[Kept] | None = None,
        residual: int = 0,
        scales: Sequence[Any] | None = None,
        decoder: str = decoders.AUTO,
    ) -> Cache:
        """An empty cache for `batch` sequences of up to `capacity` tokens (block_size), in the
        dtype of the weights unless the model computes in another.

        `layout` is one of kv/layouts, its name, or one for each layer, in which keys and values are
        kept but for the newest `residual` tokens; `scales` are by layer, for those that want them.
        `decoder` is the kernel that reads the cache in a step, by its name, `auto` or `torch`.
        """
        name, chosen = self._dtype(dtype), self.encodings(layout, residual, scales)
        for block, encoding in zip(self.h, chosen, strict=True):
            block.cached(name, encoding)  # refuses layouts that cannot stand for the block's own
        return new_cache(
            [block.kept(name, encoding) for block, encoding in zip(self.h, chosen, strict=True)],
            batch=batch,
            capacity=capacity or self.config.block_size,
            device=self.wte.weight.device,
            encodings=chosen,
            decoder=decoders.named(decoder),
            scratch=decoders.shared_scratch(self.wte.weight.device),
        )

    def graphed_steps(self, cache: Cache) -> GraphedSteps | None:
        """Steps through a cache as replays of a CUDA graph; None where they cannot be captured."""
        return None if why_not(self, cache) else GraphedSteps(self, cache)

    def cache_bytes(
        self,
        batch: int,
        tokens: int,
        dtype: torch.dtype | None = None,
        layout: Kept | Sequence[Kept] | None = None,
        residual: int = 0,
        scales: Sequence[Any] | None = None,
    ) -> int:
        """Bytes that a cache keeps of `tokens` tokens in each of `batch` sequences, by layout."""
        chosen = self.encodings(layout, residual, scales)
        layers = [b.cached(self._dtype(dtype), e) for b, e in zip(self.h, chosen, strict=True)]
        return batch * cache_bytes(layers, tokens)

    def encodings(
        self,
        layout: Kept | Sequence[Kept] | None,
        residual: int = 0,
        scales: Sequence[Any] | None = None,
    ) -> Sequence[Encoding | None]:
        """The encoding of every block's keys and values; None where they are kept as the block's
        own layout says."""
        if layout is None:
            return [None] * len(self.h)
        biases = [block.attn.source.key_bias() for block in self.h]
        return encodings(layout, len(self.h), residual=residual, scales=scales, key_biases=biases)

    def _dtype(self, dtype: torch.dtype | None) -> str:
        return str(dtype or self.wte.weight.dtype).removeprefix("torch.")

    def set_coupling(self, share: float) -> None:
        """Set the share of the reciprocal MLP, 0 to 1: a trainer may raise it as it begins."""
        if not 0 <= share <= 1:
            raise BadInput(f"a coupling of {share} is not between 0 and 1")
        for module in self.modules():
            if isinstance(module, Coupling):
                module.coupling_scale.fill_(share)

    def neutral_(self) -> None:
        """Put every gate to where its mechanism does nothing: the model is then its baseline."""
        for module in self.modules():
            if module is not self and hasattr(module, "neutral_"):
                module.neutral_()

    def baseline(self) -> "Decoder":
        """The model that this one equals when it is neutral: the parts without gates. It computes
        attention weights in memory where this one does, so that both round alike."""
        variant, config = self.variant.ungated(), self.config
        if variant.parts.get("reciprocal") != self.variant.parts.get("reciprocal"):
            config = replace(config, ra_layers="none")
        baseline = class_of(variant)(config)
        for own, other in zip(self.h, baseline.h, strict=True):
            other.attn.plain.explicit = own.attn.plain.explicit or own.attn.gating is not None
        return baseline

    def gauge_twin(self) -> "Decoder | None":
        """With fixed reciprocal attention, where q and k are made alike: the same function, with
        standard attention in every layer and the weights of q and k exchanged. Else None."""
        swapped = [getattr(block.attn.reciprocal, "swapped", None) for block in self.h]
        uneven = "mlp_latent" in self.variant.parts and not self.variant.latent
        if None in swapped or uneven:  # the MLP's latent is added to keys, not to queries
            return None
        twin = type(self)(replace(self.config, ra_layers="none"))
        twin.load_state_dict(self.state_dict())
        for block, exchanged in zip(twin.h, swapped, strict=True):
            if exchanged and not block.attn.source.swap_roles_():
                return None
        return twin

    def _refuse(self, idx: torch.Tensor, start: int, cache: Cache | None) -> None:
        if idx.ndim != 2 or not idx.shape[1]:
            raise BadInput(f"token ids have shape {tuple(idx.shape)}; wanted [batch, tokens]")
        if start + idx.shape[1] > self.config.block_size:
            raise BadInput(
                f"{start} tokens in the cache and {idx.shape[1]} new ones are more than "
                f"block_size {self.config.block_size}; give fewer, or build a longer model"
            )
        if cache and len(idx) != cache.batch:
            raise BadInput(
                f"{len(idx)} sequences and a cache for {cache.batch}; make it with "
                f"new_cache({len(idx)})"
            )
        if cache and start + idx.shape[1] > cache.capacity:
            raise BadInput(
                f"the cache has room for {cache.capacity} tokens; {start} are in it and "
                f"{idx.shape[1]} are to be added: make it with a larger capacity"
            )


class DenseDecoder(Decoder):
    """A variant with whole keys and values."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__(_checked(config, GPTConfig, self.variant))


class LatentDecoder(Decoder):
    """A variant whose keys and values come out of a latent."""

    def __init__(self, cfg: RA_MLA_Config) -> None:
        super().__init__(_checked(cfg, RA_MLA_Config, self.variant))


_CLASSES: dict[tuple[str, ...], type[Decoder]] = {}


def class_of(variant: Variant) -> type[Decoder]:
    """The class of a variant, named for it; the same one each time."""
    key = (variant.name, *(str(part.path) for part in variant.parts.values()))
    if key not in _CLASSES:
        base = LatentDecoder if variant.latent else DenseDecoder
        contents = {
            "variant": variant,
            "__module__": config_class.__module__,  # where the class is found by its name
            "__doc__": f"{variant.name}: {base.__doc__}",
        }
        _CLASSES[key] = type(variant.name, (base,), contents)
    return _CLASSES[key]


def _checked(config: Any, wanted: type, variant: Variant) -> ModelConfig:
    """The configuration with all options of the variant; one of the other class is refused."""
    if not isinstance(config, wanted):
        raise BadInput(
            f"{variant.name} was given a {type(config).__name__}; it takes a {wanted.__name__}"
        )
    return completed(config, config_class(variant))
