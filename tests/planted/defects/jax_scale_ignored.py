"""Scaled dot-product attention in JAX, divided by the root of the head dimension."""

BASE = "jax_plain"
REPLACE = {"scores = scale *": "scores = dim**-0.5 *"}
PLANTED = "the scale argument is ignored"
CAUGHT_BY = ("accuracy", "metamorphic", "shapes")
CAUSE = "scale"
SLOW = True
