"""The size at which models are examined, and options of steps brought down to it.

What tells two steps apart is kept: widths shrink in proportion, modes and shares stay.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from assay.models.gpt2.config import GPTConfig, ModelConfig, RA_MLA_Config

LAYERS, HEADS, WIDTH = 4, 2, 16
_MORE_LAYERS, _MORE_HEADS, _LONGER = 8, 4, 272  # beyond 256, where things are often cut
MLP_WIDTH = 32
# Options of parts at this size; each default of the 124M model stands for its entry here.
OPTIONS: dict[str, int] = {
    "mlp_width": MLP_WIDTH,
    "d_latent": 12,
    "rope_dims": 4,
    "mlp_splice_width": 8,
    "mg_width": 4,
    "mx_rank": 4,
    "ct_k": 3,
    "mx_k": 3,
    "ra_window": 5,
}
_SHAPE: dict[str, int] = {"block_size": 16, "vocab_size": 61}
# What an option is where nothing says otherwise, at the size of GPT-2 124M.
FULL = {item.name: item.default for item in fields(RA_MLA_Config)} | {"mlp_width": 4 * 768}


def config(*, latent: bool, options: Mapping[str, Any] | None = None) -> ModelConfig:
    """The tiny configuration of a variant, with options of the 124M model scaled down."""
    given = {**OPTIONS, **scaled(options or {})}
    if latent:
        shape = {"n_layers": LAYERS, "n_heads": HEADS, "d_model": WIDTH, "head_dim": WIDTH // HEADS}
        return RA_MLA_Config(**_SHAPE, **shape, **given)
    given.pop("d_latent")
    return GPTConfig(**_SHAPE, n_layer=LAYERS, n_head=HEADS, n_embd=WIDTH, **given)


def larger(config: ModelConfig) -> ModelConfig:
    """More layers, more heads of the same width, and longer sequences."""
    width = _MORE_HEADS * config.head_dim
    if isinstance(config, RA_MLA_Config):
        shape = {"n_layers": _MORE_LAYERS, "n_heads": _MORE_HEADS, "d_model": width}
    else:
        shape = {"n_layer": _MORE_LAYERS, "n_head": _MORE_HEADS, "n_embd": width}
    return replace(config, block_size=_LONGER, **shape)


def scaled(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the 124M model at this size."""
    return {name: _scaled(name, value) for name, value in options.items()}


def _scaled(name: str, value: Any) -> Any:
    if name in OPTIONS and value is not None:
        return max(1, round(value * OPTIONS[name] / FULL[name]))
    if name.endswith("_layers"):
        return _layers(value)
    return value


def _layers(given: str | tuple[int, ...]) -> str | tuple[int, ...]:
    """Layers of 12 as layers of these: the same places, at least one."""
    full = FULL["n_layers"]
    if not isinstance(given, str):
        return tuple(sorted({layer * LAYERS // full for layer in given}))
    word, colon, count = given.partition(":")
    return f"{word}:{max(1, round(int(count) * LAYERS / full))}" if colon else given
