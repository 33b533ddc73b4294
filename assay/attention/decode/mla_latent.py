"""Rows of latents, each read once: key and value of all heads (absorbed attention)."""

from assay.attention.decode._split_kv import LatentReader

LAYOUT = "mla_latent"
ACCEPTS = ("lengths", "pages", "lse", "scratch")
REQUIRES = ("triton",)
KERNELS = {"cuda": "^latent_kernel"}

_reader = LatentReader()
decode = _reader.decode
supports = _reader.supports
