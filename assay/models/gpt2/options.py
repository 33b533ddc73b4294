"""Options of a model as text, `ct_mode=max+ct_k=4`, and back; values are those of GPT-2 124M."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_args

from assay.errors import BadInput
from assay.models.gpt2.config import PartOptions, RA_MLA_Config

SEPARATOR = "+"  # not the colon, which is within last:4
# Beside the options of parts: the size is not an option, for models are examined at another one.
_SHARED, _OF_LATENTS = ("mlp_width", "bias"), ("d_latent", "rope_theta")


def format_options(options: Mapping[str, Any]) -> str:
    """Options by name; layers by number are written 0/5/11."""
    return SEPARATOR.join(f"{name}={_text(options[name])}" for name in sorted(options))


def parse_options(text: str, *, latent: bool) -> dict[str, Any]:
    """The options that `format_options` wrote, for a model with a latent or without."""
    names = [item.name for item in fields(PartOptions)]
    names += [*_SHARED, *(_OF_LATENTS if latent else ())]
    kinds = {item.name: item.type for item in fields(RA_MLA_Config) if item.name in names}
    found = {}
    for entry in filter(None, text.split(SEPARATOR)):
        name, equals, value = entry.partition("=")
        if not equals or name not in kinds:
            known = ", ".join(kinds)
            raise BadInput(f"{entry!r} sets no option; wanted NAME=VALUE, the names are {known}")
        found[name] = _value(name, kinds[name], value)
    return found


def _text(value: Any) -> str:
    return "/".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _value(name: str, kind: Any, text: str) -> Any:
    """`text` as a field of this type holds it; of several types, the first that reads it."""
    for member in get_args(kind) or (kind,):
        reader = _READERS.get(member, _layers)
        try:
            return reader(text)
        except ValueError:
            continue
    raise BadInput(f"{name}={text} cannot be read; wanted {getattr(kind, '__name__', kind)}")


def _layers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split("/"))


def _truth(text: str) -> bool:
    if text not in ("True", "False"):
        raise ValueError(text)
    return text == "True"


def _word(text: str) -> str:
    """Not a number: those are layers."""
    if text[:1].isdigit() or not text:
        raise ValueError(text)
    return text


def _nothing(text: str) -> None:
    if text != "None":
        raise ValueError(text)


_READERS = {int: int, float: float, bool: _truth, str: _word, type(None): _nothing}
