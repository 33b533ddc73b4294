"""Sizes of the Gemma variants, and which of their weights carry adapters."""

import dataclasses
from typing import Literal

from assay.models.gemma.lora import LoRAConfig
from assay.models.gemma.validation import InvalidInput

PALIGEMMA_VOCAB_SIZE = 257_152

VariantName = Literal["dummy", "gemma_300m", "gemma_300m_lora", "gemma_2b", "gemma_2b_lora"]


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


_SIZES = {
    "dummy": (64, 4, 128, 8, 1, 16),
    "gemma_300m": (1024, 18, 4096, 8, 1, 256),
    "gemma_2b": (2048, 18, 16_384, 8, 1, 256),
}
_LORA_RANKS = {"gemma_300m_lora": 32, "gemma_2b_lora": 16}


def stock_config(variant: VariantName) -> ExpertConfig:
    """A fresh ExpertConfig of a named variant; the adapters of `*_lora` have alpha = rank."""
    rank = _LORA_RANKS.get(variant)
    sizes = _SIZES.get(variant.removesuffix("_lora") if rank else variant)
    if sizes is None:
        raise InvalidInput(
            f"there is no variant {variant!r}; there are {', '.join([*_SIZES, *_LORA_RANKS])}"
        )
    return ExpertConfig(*sizes, lora_configs=adapters(rank) if rank else {})


def adapters(rank: int) -> dict[str, LoRAConfig]:
    """Adapters of one rank for attention and MLP, unscaled."""
    return {part: LoRAConfig(rank=rank, alpha=float(rank)) for part in ("attn", "ffn")}
