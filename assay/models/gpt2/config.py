"""The two configurations of the GPT-2 family, and the options of the parts that both carry.

GPTConfig is for variants with whole keys and values, RA_MLA_Config for those with a latent; the
decoder reads either by the same names. Each default is written here and nowhere else.
"""

from dataclasses import dataclass, fields
from typing import Any

from assay.errors import BadInput

CHOICES = {
    "ct_mode": ("topk", "max", "entropy", "rms"),
    "ct_apply": ("output", "weights"),
    "splice_transform": ("affine", "spline", "none"),
    "mx_sparse": ("topk", "rms", "none"),
    "mr_tying": ("tied_transpose", "untied", "per_head_scalar"),
}
LAYER_PATTERNS = ("all", "none", "early", "late", "alternating", "middle:N", "last:N")
_FRACTIONS = ("ct_alpha", "splice_ratio", "dropout")


@dataclass(frozen=True, kw_only=True)
class PartOptions:
    """What parts ask beyond the shape. A variant without a part does not look at its options."""

    # Reciprocal attention: which layers of the fixed form are swapped; strength and reach of the
    # added scores; layers and heads of the extra view.
    ra_layers: str | tuple[int, ...] = "late"
    ra_alpha: float = 0.3
    ra_window: int = 64
    ra_view_layers: str | tuple[int, ...] = "middle:3"
    ra_view_heads: int = 1
    # Cross-token gate.
    ct_mode: str = "topk"
    ct_apply: str = "output"
    ct_alpha: float = 0.2
    ct_k: int = 8
    ct_head_average: bool = False
    ct_detach_stats: bool = False
    # Splice: the kept fraction of a latent, and what is done to it before and after.
    splice_ratio: float = 0.5
    splice_transform: str = "affine"
    splice_norm: bool = False
    splice_layers: str | tuple[int, ...] = "all"
    # Decoupled rotary positions: dimensions beside the latent.
    rope_dims: int = 32
    # MLPSplice, and the three reciprocal forms of the MLP.
    mlp_splice_width: int = 256
    mg_width: int = 64
    mx_rank: int = 64
    mx_sparse: str = "topk"
    mx_k: int = 8
    mx_tau: float = 0.5
    mr_tying: str = "tied_transpose"

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            if (given := getattr(self, name)) not in allowed:
                raise BadInput(f"{name}={given!r} is not one of {', '.join(allowed)}")
        for field in fields(self):
            _refuse_size(field.name, field.type, getattr(self, field.name))


@dataclass(frozen=True, kw_only=True)
class GPTConfig(PartOptions):
    """A GPT-2; the defaults are the 124M one with its vocabulary padded to a multiple of 64."""

    block_size: int = 1024
    vocab_size: int = 50304
    n_layer: int = 12
    n_head: int = 12
    n_embd: int = 768
    dropout: float = 0.0
    bias: bool = True
    mlp_width: int | None = None  # None: 4 n_embd

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_embd % self.n_head:
            raise BadInput(
                f"n_embd {self.n_embd} does not divide over {self.n_head} heads; "
                "give a multiple of n_head"
            )

    @property
    def head_dim(self) -> int:
        return self.n_embd // self.n_head


@dataclass(frozen=True, kw_only=True)
class RA_MLA_Config(PartOptions):
    """A GPT-2 whose keys and values come out of a latent of `d_latent` numbers for each token."""

    d_model: int = 768
    n_heads: int = 12
    head_dim: int = 64
    d_latent: int = 256
    block_size: int = 1024
    n_layers: int = 12
    rope_theta: float = 10000.0
    dropout: float = 0.0
    vocab_size: int = 50304
    bias: bool = True
    mlp_width: int | None = None  # None: 4 d_model

    @property
    def n_layer(self) -> int:
        return self.n_layers

    @property
    def n_head(self) -> int:
        return self.n_heads

    @property
    def n_embd(self) -> int:
        return self.d_model


ModelConfig = GPTConfig | RA_MLA_Config


def mlp_width(config: ModelConfig) -> int:
    """The hidden width of a dense MLP."""
    return config.mlp_width or 4 * config.n_embd


def layer_set(given: str | tuple[int, ...], layers: int, *, option: str) -> frozenset[int]:
    """The layers that an option names: a pattern of LAYER_PATTERNS, or their numbers."""
    if not isinstance(given, str):
        found = frozenset(given)
        if beyond := sorted(n for n in found if n not in range(layers)):
            raise BadInput(f"{option} names layer {beyond[0]}; the model has 0 to {layers - 1}")
        return found
    word, _, number = given.partition(":")
    patterns = {
        "all": range(layers),
        "none": range(0),
        "early": range(layers // 2),
        "late": range(layers // 2, layers),
        "alternating": range(0, layers, 2),
    }
    if word in ("middle", "last") and number.isdecimal() and int(number) <= layers:
        count = int(number)
        start = layers - count if word == "last" else layers // 2 - count // 2
        return frozenset(range(start, start + count))
    if given not in patterns:
        raise BadInput(
            f"{option}={given!r} names no layers of {layers}; wanted their numbers, or one of "
            f"{', '.join(LAYER_PATTERNS)}"
        )
    return frozenset(patterns[given])


def _refuse_size(name: str, kind: Any, value: Any) -> None:
    """Refuse what no model can be built with."""
    if name in _FRACTIONS and not 0 <= value <= 1:
        raise BadInput(f"{name}={value} is not between 0 and 1")
    whole = kind is int or (kind == int | None and value is not None)
    if whole and (not isinstance(value, int) or value < 1):
        raise BadInput(f"{name}={value!r} is not a whole number from 1")
