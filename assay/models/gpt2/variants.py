"""The GPT-2 family by name: `from assay.models.gpt2.variants import GPT2_MLA_KV` gives the class.

Names and what they are made of are in composition.py, the decoder in gpt2.py.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assay.models.gpt2.composition import (
    BASE,
    NAMED,
    Variant,
    compose,
    config_class,
    pairs,
    parse,
    parts,
    variations,
)

__all__ = [
    "NAMED",
    "Variant",
    "compose",
    "config_class",
    "model_class",
    "pairs",
    "parse",
    "parts",
    "variations",
]


def model_class(variant: Variant | str, folders: Sequence[Path] = ()) -> type:
    """The class of a variant, named for it; the same one each time. Imports torch."""
    from assay.models.gpt2 import model as gpt2

    return gpt2.class_of(parse(variant, folders) if isinstance(variant, str) else variant)


def __getattr__(name: str) -> Any:
    if not name.startswith(BASE):
        raise AttributeError(f"module {__name__} has no attribute {name}")
    from assay.models.gpt2 import model as gpt2

    return getattr(gpt2, name)
