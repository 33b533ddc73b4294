"""Scales that are settled before the first token: taken from caches that a model has filled.

They are of a head, for all tokens to come. A number beyond what was seen is clipped, so the text
that they are taken from should be like the text to come.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NoReturn

import torch

from assay.errors import BadInput
from assay.kv.encoded import EncodedLayer
from assay.kv.formats import Format, Part
from assay.kv.frozen import FrozenFloat8


@dataclass(frozen=True)
class Uncalibrated(Format):
    """The place of a format in a layout whose scales are given by layer: it knows bytes alone."""

    dtype: str

    def parts(self, width: int) -> dict[str, Part]:
        return {"": Part(self.dtype, width)}

    def encode(self, vectors: torch.Tensor) -> NoReturn:
        self._refuse()

    def decode(self, kept: dict[str, torch.Tensor]) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise BadInput("the layout's scales are frozen, and none are given; calibrate the model")


@dataclass(frozen=True, kw_only=True)
class FrozenScales:
    """Formats of a layer's keys and values, by "k" and "v", with scales that never move."""

    formats: Mapping[str, FrozenFloat8]


FROZEN_E4M3 = Uncalibrated("float8_e4m3fn")


def calibrated(
    layers: Iterable[EncodedLayer], *, dtype: str = FROZEN_E4M3.dtype
) -> list[FrozenScales]:
    """Return the scales of each layer from what it keeps in full, such as the layers of a cache in
    layout dense that has read some text."""
    largest = torch.finfo(getattr(torch, dtype)).max
    smallest = torch.finfo(torch.float32).tiny
    scales = []
    for layer in layers:
        stored = layer.stored(layer.encoding.sealed(layer.length))
        if not layer.encoding.layout.exact or not layer.length:
            raise BadInput(
                f"a layer in layout {layer.encoding.layout.name} with {layer.length} tokens; "
                "calibrate from one in dense that has read text"
            )
        formats = {}
        for name in ("k", "v"):
            if name in stored:
                size = stored[name].float().abs().amax((0, 2, 3))[:, None, None]  # [H, 1, 1]
                scale = (size / largest).clamp_min(smallest)
                formats[name] = FrozenFloat8(dtype, scale)
        scales.append(FrozenScales(formats=formats))
    return scales
