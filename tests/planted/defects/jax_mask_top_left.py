"""Causal attention in JAX with jnp.tril."""

BASE = "jax_plain"
REPLACE = {"jnp.arange(queries)[:, None] + keys - queries": "jnp.arange(queries)[:, None]"}
PLANTED = "mask aligned top-left"
CAUGHT_BY = ("accuracy", "causality", "shapes")
CAUSE = ("top-left", "alignment", "aligned")
SLOW = True
