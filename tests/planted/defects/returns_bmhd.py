"""Attention with the heads next to the head dimension, ready for the output projection."""

BASE = "eager_plain"
REPLACE = {"weights.to(v.dtype) @ v": "(weights.to(v.dtype) @ v).transpose(1, 2)"}
PLANTED = "the output is [batch, queries, heads, dim]"
CAUGHT_BY = ("accuracy", "shapes")
CAUSE = ("shape", "layout")
