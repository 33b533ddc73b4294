"""Sizes of the autoregressive Gemma variants, as keywords of its Module."""

from typing import Any, Literal

from assay.models.gemma.config import PALIGEMMA_VOCAB_SIZE, stock_config
from assay.models.gemma.validation import InvalidInput

FastVariantName = Literal["gemma_2b", "gemma_2b_lora"]

_VARIANTS = ("gemma_2b", "gemma_2b_lora")


class ModelKeywords(dict[str, Any]):
    """Keywords by name or as attributes: `Module(**settings)` and `settings.width` both work."""

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise AttributeError(f"there is no setting {name!r}; there are {', '.join(self)}")
        return self[name]

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


def stock_keywords(variant: FastVariantName) -> ModelKeywords:
    """The keywords of a named variant; `lora_configs` is among them for `*_lora` only."""
    if variant not in _VARIANTS:
        raise InvalidInput(f"there is no variant {variant!r}; there are {', '.join(_VARIANTS)}")
    config = stock_config(variant)
    settings = ModelKeywords(
        variant=variant,
        width=config.width,
        depth=config.depth,
        mlp_dim=config.mlp_dim,
        num_heads=config.num_heads,
        num_kv_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        norm_eps=1e-6,
        vocab_size=PALIGEMMA_VOCAB_SIZE,
        scan=True,
        remat_policy="nothing_saveable",
    )
    if config.lora_configs:
        settings.lora_configs = ModelKeywords(config.lora_configs)
    return settings
