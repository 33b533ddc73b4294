"""Options of parts, as the files of the parts declare them; no part is imported to read them.

A part declares OPTIONS = {"ct_k": {"default": 8, "tiny": 3}}. Beside its default an option may have
"choices" (all values it can take), "between" (its least and largest value), "layers": True (it
names layers, by number or by pattern), "latent": True (only models with a latent have it) and
"tiny" (of a whole number: what stands for the default in the small models that are examined; other
values shrink in proportion).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assay.errors import BadInput
from assay.plugins import Plugin

_KINDS = (bool, int, float, str)


@dataclass(frozen=True, kw_only=True)
class PartOption:
    """One option of a part."""

    name: str
    default: bool | int | float | str
    choices: tuple[Any, ...] = ()
    between: tuple[float, float] | None = None
    layers: bool = False
    latent: bool = False
    tiny: int | float | None = None

    @property
    def type(self) -> Any:
        """The type that a configuration's field for it has."""
        return str | tuple[int, ...] if self.layers else type(self.default)

    def check(self, value: Any) -> None:
        """Refuse a value that no part can be built with."""
        if self.choices and value not in self.choices:
            raise BadInput(f"{self.name}={value!r} is not one of {', '.join(self.choices)}")
        check_number(self.name, self.type, value, between=self.between)


def check_number(
    name: str, kind: Any, value: Any, *, between: tuple[float, float] | None = None
) -> None:
    """Refuse a number outside of `between`; whole numbers without such a range start at 1."""
    if between is not None:
        low, high = between
        if not low <= value <= high:
            raise BadInput(f"{name}={value} is not between {low} and {high}")
    elif kind is int and (not isinstance(value, int) or value < 1):
        raise BadInput(f"{name}={value!r} is not a whole number from 1")


def declared(part: Plugin) -> tuple[PartOption, ...]:
    """The options that a part's file declares."""
    entries = part.literals.get("OPTIONS", {})
    if not isinstance(entries, Mapping):
        raise BadInput(f"{part.path}: OPTIONS is {entries!r}; wanted a dict of options by name")
    return tuple(_option(part, name, entry) for name, entry in entries.items())


def _option(part: Plugin, name: Any, entry: Any) -> PartOption:
    try:
        option = PartOption(name=name, **_frozen(entry))
        if not name.isidentifier() or type(option.default) not in _KINDS:
            raise TypeError("a name or a default of another kind")
        option.check(option.default)
    except (TypeError, AttributeError, BadInput) as error:
        raise BadInput(
            f"{part.path}: the option {name!r} is declared as {entry!r} ({error}); wanted a name "
            'with {"default": a number, a word or a truth value}, and where they are needed '
            '"choices", "between", "layers", "latent" and "tiny"'
        ) from error
    return option


def _frozen(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The entry with tuples for lists, so that options can be compared and hashed."""
    return {key: tuple(v) if isinstance(v, list) else v for key, v in entry.items()}
