"""A latent as it is."""

from assay.kv.layouts.mla_latent import decode, encode, streams

__all__ = ["decode", "encode", "streams"]
