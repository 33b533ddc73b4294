"""A configuration of any size, with the options of GPT-2 124M in proportion.

Options that are widths (those with a size of their own in small models) grow with the width of the
model, layers that an option names with their number; modes and shares stay.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from assay.models.gpt2.config import ModelConfig, RA_MLA_Config

_FULL_WIDTH, _FULL_LAYERS = 768, 12


@dataclass(frozen=True, kw_only=True)
class ModelSize:
    """Shape of a model, whatever its parts."""

    layers: int
    heads: int
    width: int
    length: int  # the most tokens that it reads
    vocabulary: int
    dropout: float = 0.0


def sized(kind: type[ModelConfig], size: ModelSize, options: Mapping[str, Any]) -> ModelConfig:
    """The configuration of a variant in a size; `options` are those of the 124M model."""
    common = {"block_size": size.length, "vocab_size": size.vocabulary, "dropout": size.dropout}
    if issubclass(kind, RA_MLA_Config):
        shape = {"n_layers": size.layers, "n_heads": size.heads, "d_model": size.width}
        shape["head_dim"] = size.width // size.heads
    else:
        shape = {"n_layer": size.layers, "n_head": size.heads, "n_embd": size.width}
    return kind(**common, **shape, **_scaled(kind, size, options))


def _scaled(kind: type[ModelConfig], size: ModelSize, options: Mapping[str, Any]) -> dict[str, Any]:
    defaults = {item.name: item.default for item in fields(kind) if item.name in kind.OPTIONS}
    values: dict[str, Any] = {}
    for name, value in (defaults | dict(options)).items():
        option = kind.OPTIONS.get(name)
        if name == "mlp_width" or (option and option.tiny is not None):
            value = value and max(1, round(value * size.width / _FULL_WIDTH))
        elif option and option.layers:
            value = _layers(value, size.layers)
        values[name] = value
    return values


def _layers(chosen: str | tuple[int, ...], layers: int) -> str | tuple[int, ...]:
    """Layers of a full model as layers of this one: the same places, at least one."""
    if not isinstance(chosen, str):
        return tuple(sorted({layer * layers // _FULL_LAYERS for layer in chosen}))
    word, colon, count = chosen.partition(":")
    return f"{word}:{max(1, round(int(count) * layers / _FULL_LAYERS))}" if colon else chosen
