"""Codes of latents, read as they are: the map from code to latent is in queries and outputs.

A splice's expansion is affine, so q (E c + e) = (q E) c + q e: the queries that come here are q E,
and q e, equal for all keys of a query, leaves the weights as they are. No latent is ever written.
"""

from assay.attention.decode._split_kv import LatentReader

LAYOUT = "splice"
ACCEPTS = ("lengths", "pages", "lse", "scratch")
REQUIRES = ("triton",)
KERNELS = {"cuda": "^latent_kernel"}

_reader = LatentReader()
decode = _reader.decode
supports = _reader.supports
