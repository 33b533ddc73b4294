"""Attention in JAX with float32 inside, for any input."""

BASE = "jax_plain"
REPLACE = {".astype(q.dtype)": ""}
PLANTED = "half precision inputs give a float32 output"
CAUGHT_BY = ("accuracy", "shapes")
CAUSE = ("dtype", "float32")
