"""Rows of latents, each read once: key and value of all heads (absorbed attention)."""

from assay.attention.decode._split_kv import latent_reader

LAYOUT = "mla_latent"
REQUIRES = ("triton",)
KERNELS = {"cuda": "^latent_kernel"}

decode = latent_reader("latent")
