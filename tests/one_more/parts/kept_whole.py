"""A latent in a layout of one's own."""

from assay.models.gpt2.parts.mla import build as build_latent

TAG = "OWN"
SLOT = "kv"
OPTIONS = {"own_gain": {"default": 1.0, "between": (0, 4)}}


def build(config, layer, **context):
    projection = build_latent(config, layer, **context)
    projection.layout = "own_latent"
    return projection
