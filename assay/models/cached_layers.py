"""Caches of models by layer: of our variants as they are built, of others by their config."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from assay.errors import BadInput
from assay.kv import contract
from assay.kv.account import CachedLayer, layers_of_config, layout_of_config
from assay.models.gpt2 import variants

CONFIG = "config.json"


@dataclass(frozen=True, kw_only=True)
class CachedModel:
    """A model by its name or its file, and its weights where they can be counted."""

    name: str
    config: Any = None  # of a file; a variant has none
    parameters: int | None = None

    @property
    def layout(self) -> str:
        """The layout that it has by itself."""
        if self.config is not None:
            return layout_of_config(self.config)
        return _on_meta(self.name).h[0].attn.layout.name

    def layers(
        self, *, dtype: str, layout: str | None = None, residual: int = 0
    ) -> list[CachedLayer]:
        """Return what each layer keeps, in another layout than its own where one is named: of all
        tokens but the newest `residual` ones."""
        if self.config is not None:
            return layers_of_config(
                self.config, dtype=dtype, layout=layout, residual=residual, place=self.name
            )
        model = _on_meta(self.name)
        own = layout if layout and (layout != self.layout or residual) else None
        encodings = model.encodings(own, residual)
        return [block.cached(dtype, kept) for block, kept in zip(model.h, encodings, strict=True)]

    def possible(self, layouts: Sequence[str]) -> list[str]:
        """Return those of some layouts that it can have; BadInput where it can have none."""
        able = []
        for name in layouts:
            contract.load(name)  # refuses a name that no layout has
            try:
                self.layers(dtype="float32", layout=name)
            except BadInput:
                continue
            able.append(name)
        if not able:
            raise BadInput(
                f"{self.name} can have none of the layouts {', '.join(layouts)}; "
                f"its own is {self.layout}"
            )
        return able


def open_model(name: str) -> CachedModel:
    """Return a variant of GPT-2 by its name, or the model of a Hugging Face config.json by the
    path of that, or of its folder."""
    path = Path(name)
    if path.is_dir():
        path = path / CONFIG
    if path.is_file():
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise BadInput(f"{path} cannot be read as JSON: {error}") from error
        if not isinstance(config, dict):
            raise BadInput(f"{path} holds a {type(config).__name__}; wanted an object")
        return CachedModel(name=str(path), config=config)
    if path.suffix or "/" in name:
        raise BadInput(
            f"{path} is no file; wanted a {CONFIG} of Hugging Face, its folder, or a variant's name"
        )
    return CachedModel(name=name, parameters=_on_meta(name).get_num_params())


@cache
def _on_meta(name: str) -> Any:
    """The variant at full size, without its weights."""
    from assay.models.weightless import weightless

    variant = variants.parse(name)
    config = variants.config_class(variant)()
    with weightless():
        return variants.model_class(variant)(config)
