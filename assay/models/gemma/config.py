"""Sizes of the Gemma variants, and which of their weights carry adapters."""

import dataclasses
from typing import Any, Literal

from assay.models.gemma.lora import LoRAConfig
from assay.models.gemma.validation import InvalidInput

PALIGEMMA_VOCAB_SIZE = 257_152

VariantName = Literal["dummy", "gemma_300m", "gemma_300m_lora", "gemma_2b", "gemma_2b_lora"]
FastVariantName = Literal["gemma_2b", "gemma_2b_lora"]
_SIZES = {
    "dummy": (64, 4, 128, 8, 1, 16),
    "gemma_300m": (1024, 18, 4096, 8, 1, 256),
    "gemma_2b": (2048, 18, 16_384, 8, 1, 256),
}
_LORA_RANKS = {"gemma_300m_lora": 32, "gemma_2b_lora": 16}
_FAST = ("gemma_2b", "gemma_2b_lora")


@dataclasses.dataclass
class ExpertConfig:
    """The sizes of one expert; adapters are looked up under "attn" and "ffn"."""

    width: int
    depth: int
    mlp_dim: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    lora_configs: dict[str, LoRAConfig] = dataclasses.field(default_factory=dict)


class ModelKeywords(dict[str, Any]):
    """Keywords by name or as attributes: `Module(**keywords)` and `keywords.width` both work."""

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise AttributeError(f"there is no setting {name!r}; there are {', '.join(self)}")
        return self[name]

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


def stock_config(variant: VariantName) -> ExpertConfig:
    """A fresh ExpertConfig of a named variant; the adapters of `*_lora` have alpha = rank."""
    rank = _LORA_RANKS.get(variant)
    sizes = _SIZES.get(variant.removesuffix("_lora") if rank else variant)
    if sizes is None:
        raise InvalidInput(
            f"there is no variant {variant!r}; there are {', '.join([*_SIZES, *_LORA_RANKS])}"
        )
    adapters = LoRAConfig(rank=rank, alpha=float(rank)) if rank else None
    parts = ("attn", "ffn") if rank else ()
    return ExpertConfig(*sizes, lora_configs=dict.fromkeys(parts, adapters))


def stock_keywords(variant: FastVariantName) -> ModelKeywords:
    """Keywords of the autoregressive model; `lora_configs` is among them for `*_lora` only."""
    if variant not in _FAST:
        raise InvalidInput(f"there is no variant {variant!r}; there are {', '.join(_FAST)}")
    sizes = dict(vars(stock_config(variant)))
    adapters = sizes.pop("lora_configs")
    keywords = ModelKeywords(
        variant=variant,
        **sizes,
        norm_eps=1e-6,
        vocab_size=PALIGEMMA_VOCAB_SIZE,
        scan=True,
        remat_policy="nothing_saveable",
    )
    if adapters:
        keywords.lora_configs = ModelKeywords(adapters)
    return keywords
