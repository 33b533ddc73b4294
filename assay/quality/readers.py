"""Models that read a text through a cache, ours and those of transformers, called alike."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from assay.errors import BadInput
from assay.kv.account import CachedLayer, layers_of_config
from assay.kv.encoding import Kept
from assay.models.pretrained import catalog

LATENT_LAYOUTS = ("mla_latent", "splice")


class Reader(Protocol):
    """A model with its caches. Token ids are [batch, tokens]."""

    name: str
    dtype: str
    weights: str  # where its weights are from
    unit: str  # tokens, or bytes where there is no tokenizer
    positions: int | None  # that it was built for; None where it has no bound

    def token_ids(self, text: str) -> list[int]: ...

    def new_cache(
        self, layout: Kept, *, batch: int, residual: int = 0, capacity: int | None = None
    ) -> Any: ...

    def logits(self, ids: torch.Tensor, cache: Any) -> torch.Tensor: ...

    def reads(self, cache: Any) -> Counter[str]: ...

    def kernels(self, cache: Any) -> Counter[str]: ...

    def steps(self, cache: Any) -> Callable[[torch.Tensor], Any]: ...

    def length(self, cache: Any) -> int: ...

    def layers(self, layout: str, *, residual: int = 0) -> list[CachedLayer]: ...


@dataclass(frozen=True, kw_only=True)
class PretrainedReader:
    """A model of transformers."""

    name: str
    dtype: str
    weights: str
    loaded: Any

    @property
    def unit(self) -> str:
        return "tokens" if self.loaded.tokenizer is not None else "bytes"

    @property
    def positions(self) -> int | None:
        config = self.loaded.model.config.get_text_config(decoder=True)
        return getattr(config, "max_position_embeddings", None)

    def token_ids(self, text: str) -> list[int]:
        return self.loaded.token_ids(text)

    def new_cache(
        self, layout: Kept, *, batch: int, residual: int = 0, capacity: int | None = None
    ) -> Any:
        from assay.integrations.transformers import LayoutCache

        return LayoutCache(self.loaded.model, layout, residual=residual, capacity=capacity)

    def logits(self, ids: torch.Tensor, cache: Any) -> torch.Tensor:
        """Return logits [batch, tokens, vocabulary] of tokens that follow those in the cache."""
        model = self.loaded.model
        return model(ids.to(model.device), past_key_values=cache, use_cache=True).logits

    def reads(self, cache: Any) -> Counter[str]:
        return cache.reads

    def kernels(self, cache: Any) -> Counter[str]:
        """Return the calls of decode kernels that read the cache, by name."""
        return cache.kernels

    def steps(self, cache: Any) -> Callable[[torch.Tensor], Any]:
        """Return the way to read one more token of each sequence: by the replay of a graph on a
        GPU, where the cache can, else launched from Python."""
        from assay.integrations.transformers.replayed import ReplayedSteps, why_not

        if why_not(self.loaded.model, cache):
            return lambda ids: self.logits(ids, cache)
        return ReplayedSteps(self.loaded.model, cache)

    def length(self, cache: Any) -> int:
        return cache.get_seq_length()

    def layers(self, layout: str, *, residual: int = 0) -> list[CachedLayer]:
        config = self.loaded.model.config.to_dict()
        return layers_of_config(
            config, dtype=self.dtype, layout=layout, residual=residual, place=self.name
        )


@dataclass(frozen=True, kw_only=True)
class VariantReader:
    """A variant of GPT-2: of a checkpoint, or with the weights it begins with. It reads bytes. One
    that keeps latents has the layout that it was built with and no other."""

    name: str
    dtype: str
    weights: str
    model: Any
    unit: str = "bytes"

    @property
    def positions(self) -> int | None:
        return self.model.config.block_size

    def token_ids(self, text: str) -> list[int]:
        return list(text.encode())

    def new_cache(
        self, layout: Kept, *, batch: int, residual: int = 0, capacity: int | None = None
    ) -> Any:
        chosen = None if layout in LATENT_LAYOUTS else layout
        return self.model.new_cache(batch, layout=chosen, residual=residual, capacity=capacity)

    def logits(self, ids: torch.Tensor, cache: Any) -> torch.Tensor:
        """Return logits [batch, tokens, vocabulary] of tokens that follow those in the cache."""
        logits, _, _ = self.model(ids.to(self.model.wte.weight.device), cache=cache)
        return logits

    def reads(self, cache: Any) -> Counter[str]:
        encoded = (layer.encoded.reads for layer in cache.layers if layer.encoded)
        return sum((*encoded, *(layer.reads for layer in cache.layers)), Counter())

    def kernels(self, cache: Any) -> Counter[str]:
        """Return the calls of decode kernels that read the cache, by name."""
        return sum((layer.kernels for layer in cache.layers), Counter())

    def steps(self, cache: Any) -> Callable[[torch.Tensor], Any]:
        """Return the way to read one more token of each sequence: by the replay of a graph on a
        GPU, where the model can, else launched from Python."""
        return self.model.graphed_steps(cache) or (lambda ids: self.logits(ids, cache))

    def length(self, cache: Any) -> int:
        return cache.length

    def layers(self, layout: str, *, residual: int = 0) -> list[CachedLayer]:
        own = self.model.h[0].attn.layout.name
        if layout in LATENT_LAYOUTS and layout != own:
            raise BadInput(f"{self.name} keeps {own}, for which {layout} cannot stand")
        chosen = self.model.encodings(None if layout in LATENT_LAYOUTS else layout, residual)
        return [b.cached(self.dtype, e) for b, e in zip(self.model.h, chosen, strict=True)]


def open_reader(name: str, *, dtype: str, device: str) -> Reader:
    """Return the model called `name`: a checkpoint of ours, a variant of GPT-2, or what
    models/pretrained/catalog.py opens."""
    from assay.models.gpt2 import checkpoint, variants

    if name.endswith(".safetensors") and Path(name).is_file():
        model, weights = checkpoint.load(name), f"checkpoint {Path(name).name}"
    elif name.startswith("GPT2"):
        variant = variants.parse(name)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = variants.model_class(variant)(variants.config_class(variant)())
        weights = "untrained, so that its figures say what a cache does and nothing of a model"
    else:
        loaded = catalog.open_model(name, dtype=dtype, device=device)
        weights = loaded.identity.digest or loaded.identity.revision or "of unknown origin"
        _read_through_kernels(loaded.model)
        return PretrainedReader(name=name, dtype=dtype, weights=weights, loaded=loaded)
    if model.config.vocab_size < 256:
        raise BadInput(f"{name} has {model.config.vocab_size} tokens; wanted 256, for bytes")
    placed = model.to(device=device, dtype=getattr(torch, dtype)).eval()
    return VariantReader(name=name, dtype=dtype, weights=weights, model=placed)


def _read_through_kernels(model: Any) -> None:
    """Let decode kernels read caches of a model on a GPU, where its attention is torch's own."""
    from assay.integrations.transformers import register_decode

    on_gpu = model.device.type == "cuda"
    if on_gpu and model.config.get_text_config(decoder=True)._attn_implementation == "sdpa":
        model.set_attn_implementation(register_decode())


def why_too_long(reader: Reader, tokens: int) -> str:
    """Return the reason why a model cannot read so many tokens through one cache; empty where it
    can."""
    if not reader.positions or tokens <= reader.positions:
        return ""
    return (
        f"{tokens:,} tokens would be in one cache, and {reader.name} has {reader.positions:,} "
        "positions: give a smaller --window"
    )


def windows_of(ids: Sequence[int], *, tokens: int, window: int, source: str) -> torch.Tensor:
    """Return the first `tokens` ids in windows, [windows, window]; BadInput where the text is
    shorter."""
    count = -(-tokens // window)
    if len(ids) < count * window:
        raise BadInput(
            f"{source} has {len(ids)} tokens, {count} windows of {window} are wanted; give a "
            "longer text, or ask for fewer tokens"
        )
    return torch.tensor(ids[: count * window]).view(count, window)
