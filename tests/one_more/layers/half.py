"""Gemma's layer, with another name."""

from assay.models.layers.gemma import apply, init

__all__ = ["apply", "init"]

REQUIRES = ("flax",)
HEADS = ((8, 1, 16),)
