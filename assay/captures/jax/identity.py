"""What a store says of the Flax model that was captured."""

import dataclasses

import flax.linen as nn

from assay.captures.manifest import Scalar

_LONGEST = 300


def model(module: nn.Module | type | None) -> dict[str, Scalar]:
    """Its class and its framework."""
    if module is None:
        return {"framework": "flax", "class": None}
    kind = module if isinstance(module, type) else type(module)
    return {"framework": "flax", "class": f"{kind.__module__}.{kind.__qualname__}"}


def config(module: nn.Module | type | None) -> dict[str, Scalar]:
    """Its fields; what is no plain value is written out."""
    if module is None or isinstance(module, type):
        return {}
    found: dict[str, Scalar] = {}
    for field in dataclasses.fields(module):
        if field.name in ("parent", "name"):
            continue
        value = getattr(module, field.name)
        plain = value is None or isinstance(value, bool | int | float | str)
        found[field.name] = value if plain else repr(value)[:_LONGEST]
    return found
