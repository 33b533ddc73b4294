"""The size at which models are examined, and options of steps brought down to it.

What tells two steps apart is kept: widths shrink in proportion, modes and shares stay.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from assay.models.gpt2.config import ModelConfig, RA_MLA_Config

LAYERS, HEADS, WIDTH = 4, 2, 16
_MORE_LAYERS, _MORE_HEADS, _LONGER = 8, 4, 272  # beyond 256, where things are often cut
MLP_WIDTH = 32
_SHAPE: dict[str, int] = {"block_size": 16, "vocab_size": 61}


def config(kind: type[ModelConfig], options: Mapping[str, Any] | None = None) -> ModelConfig:
    """The tiny configuration of a class, with options of the 124M model scaled down."""
    if issubclass(kind, RA_MLA_Config):
        shape = {"n_layers": LAYERS, "n_heads": HEADS, "d_model": WIDTH, "head_dim": WIDTH // HEADS}
    else:
        shape = {"n_layer": LAYERS, "n_head": HEADS, "n_embd": WIDTH}
    return kind(**{**_SHAPE, **shape, **_tiny(kind), **scaled(options or {}, kind)})


def defaults(kind: type[ModelConfig]) -> dict[str, Any]:
    """Options where nothing says otherwise, at the size of GPT-2 124M."""
    return {item.name: item.default for item in fields(kind)} | {"mlp_width": 4 * 768}


def _tiny(kind: type[ModelConfig]) -> dict[str, Any]:
    """Options at this size; each default of the 124M model stands for its entry here."""
    small = {n: option.tiny for n, option in kind.OPTIONS.items() if option.tiny is not None}
    return small | {"mlp_width": MLP_WIDTH}


def larger(config: ModelConfig) -> ModelConfig:
    """More layers, more heads of the same width, and longer sequences."""
    width = _MORE_HEADS * config.head_dim
    if isinstance(config, RA_MLA_Config):
        shape = {"n_layers": _MORE_LAYERS, "n_heads": _MORE_HEADS, "d_model": width}
    else:
        shape = {"n_layer": _MORE_LAYERS, "n_head": _MORE_HEADS, "n_embd": width}
    return replace(config, block_size=_LONGER, **shape)


def scaled(options: Mapping[str, Any], kind: type[ModelConfig] = RA_MLA_Config) -> dict[str, Any]:
    """Options of the 124M model at this size."""
    small, full = _tiny(kind), defaults(kind)
    values = {}
    for name, value in options.items():
        if name in small and value is not None:
            value = max(1, round(value * small[name] / full[name]))
        elif name in kind.OPTIONS and kind.OPTIONS[name].layers:
            value = _layers(value, of=kind().n_layer)
        values[name] = value
    return values


def _layers(chosen: str | tuple[int, ...], *, of: int) -> str | tuple[int, ...]:
    """Layers of a full model as layers of these: the same places, at least one."""
    if not isinstance(chosen, str):
        return tuple(sorted({layer * LAYERS // of for layer in chosen}))
    word, colon, count = chosen.partition(":")
    return f"{word}:{max(1, round(int(count) * LAYERS / of))}" if colon else chosen
