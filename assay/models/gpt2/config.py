"""The two configurations of the GPT-2 family, and their options as text, `ct_mode=max+ct_k=4`.

GPTConfig is for variants with whole keys and values, RA_MLA_Config for those with a latent; the
decoder reads either by the same names. Both have a field for every option of the package's parts
(GPTConfig none of those that only a latent has); a variant with a user's part has a subclass with
the options of that part as well.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, make_dataclass
from functools import cache
from typing import Any, ClassVar, get_args

from assay import plugins
from assay.errors import BadInput
from assay.models.gpt2.options import PartOption, check_number, declared

KIND = "parts"
LAYER_PATTERNS = ("all", "none", "early", "late", "alternating", "middle:N", "last:N")
SEPARATOR = "+"  # between options in a name; not the colon, which is within last:4
# Fields that are no options of a name: models are examined at another size.
_SIZES = {"block_size", "vocab_size", "head_dim", "dropout"}
_SHARES = ("dropout", "sparsity")
_SIZES |= {"n_layer", "n_head", "n_embd", "n_layers", "n_heads", "d_model"}


class CheckedFields:
    """A configuration that refuses values which no model can be built with."""

    OPTIONS: ClassVar[Mapping[str, PartOption]] = {}

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in self.OPTIONS:
                self.OPTIONS[item.name].check(value)
            elif item.name in _SHARES:
                check_number(item.name, item.type, value, between=(0, 1))
            elif value is not None:
                check_number(item.name, (get_args(item.type) or (item.type,))[0], value)


def _with_options(base: type, options: Iterable[PartOption], name: str, doc: str) -> type:
    """A subclass of `base` with a field for each option."""
    options = tuple(options)
    return make_dataclass(
        name,
        [(option.name, option.type, field(default=option.default)) for option in options],
        bases=(base,),
        namespace={
            "OPTIONS": {**base.OPTIONS, **{option.name: option for option in options}},
            "__module__": __name__,
            "__doc__": doc,
        },
        frozen=True,
        kw_only=True,
    )


_DECLARED = [option for part in plugins.listing(KIND).values() for option in declared(part)]
PartOptions = _with_options(
    CheckedFields,
    (option for option in _DECLARED if not option.latent),
    "PartOptions",
    "The options of all parts; a variant without a part does not read its options.",
)
LatentOptions = _with_options(
    PartOptions,
    (option for option in _DECLARED if option.latent),
    "LatentOptions",
    "With the options that only models with a latent have.",
)


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
    sparsity: float = 0.0  # share of the weights in the blocks' linear maps that training prunes

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
class RA_MLA_Config(LatentOptions):
    """A GPT-2 whose keys and values come out of a latent of `d_latent` numbers for each token."""

    d_model: int = 768
    n_heads: int = 12
    head_dim: int = 64
    block_size: int = 1024
    n_layers: int = 12
    dropout: float = 0.0
    vocab_size: int = 50304
    bias: bool = True
    mlp_width: int | None = None  # None: 4 d_model
    sparsity: float = 0.0  # as in GPTConfig

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


@cache
def extended(base: type[ModelConfig], options: tuple[PartOption, ...]) -> type[ModelConfig]:
    """`base` itself where it has all the options, else a subclass that has them."""
    more = tuple(option for option in options if option.name not in base.OPTIONS)
    return _with_options(base, more, base.__name__, base.__doc__ or "") if more else base


def completed(config: ModelConfig, kind: type[ModelConfig]) -> ModelConfig:
    """`config` as a `kind` that extends its class: the options that it lacks are the defaults."""
    if isinstance(config, kind):
        return config
    names = {item.name for item in fields(kind)}
    return kind(**{n: v for n, v in vars(config).items() if n in names})


def mlp_width(config: ModelConfig) -> int:
    """The hidden width of a dense MLP."""
    return config.mlp_width or 4 * config.n_embd


def layer_set(chosen: str | tuple[int, ...], layers: int, *, option: str) -> frozenset[int]:
    """The layers that an option names: a pattern of LAYER_PATTERNS, or their numbers."""
    if not isinstance(chosen, str):
        if beyond := sorted(set(chosen) - set(range(layers))):
            raise BadInput(f"{option} names layer {beyond[0]}; the model has 0 to {layers - 1}")
        return frozenset(chosen)
    word, _, number = chosen.partition(":")
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
    if chosen not in patterns:
        raise BadInput(
            f"{option}={chosen!r} names no layers of {layers}; wanted their numbers, or one of "
            f"{', '.join(LAYER_PATTERNS)}"
        )
    return frozenset(patterns[chosen])


def format_options(options: Mapping[str, Any]) -> str:
    """Options by name, `ct_k=4+ct_mode=max`; layers by number are written 0/5/11."""

    def text(value: Any) -> str:
        return "/".join(map(str, value)) if isinstance(value, tuple) else str(value)

    return SEPARATOR.join(f"{name}={text(options[name])}" for name in sorted(options))


def parse_options(text: str, kind: type[ModelConfig]) -> dict[str, Any]:
    """The options that `format_options` wrote, for a configuration of this class."""
    types = {item.name: item.type for item in fields(kind) if item.name not in _SIZES}
    options = {}
    for entry in filter(None, text.split(SEPARATOR)):
        name, equals, value = entry.partition("=")
        if not equals or name not in types:
            known = ", ".join(types)
            raise BadInput(f"{entry!r} sets no option; wanted NAME=VALUE, the names are {known}")
        options[name] = _parse_value(name, types[name], value)
    return options


def _parse_value(name: str, kind: Any, text: str) -> Any:
    """`text` as a field of this type holds it; of several types, the first that reads it."""
    for member in get_args(kind) or (kind,):
        try:
            return _READERS.get(member, _read_layers)(text)
        except (ValueError, KeyError):
            continue
    raise BadInput(f"{name}={text} cannot be read; wanted {getattr(kind, '__name__', kind)}")


def _read_layers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split("/"))


def _read_word(text: str) -> str:
    """A word, which does not begin with a digit: numbers are layers."""
    if text[:1].isdigit() or not text:
        raise ValueError(text)
    return text


_READERS = {
    int: int,
    float: float,
    bool: {"True": True, "False": False}.__getitem__,
    str: _read_word,
    type(None): {"None": None}.__getitem__,
}
