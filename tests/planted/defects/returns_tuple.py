"""Attention that returns the output together with the weights, which are useful for plots."""

BASE = "eager_plain"
REPLACE = {"weights.to(v.dtype) @ v": "weights.to(v.dtype) @ v, weights"}
PLANTED = "a tuple is returned"
CAUGHT_BY = ("accuracy", "shapes")
CAUSE = "tuple"
