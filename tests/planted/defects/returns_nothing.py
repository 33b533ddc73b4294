"""Attention that runs the computation as a benchmark would."""

BASE = "eager_plain"
REPLACE = {"return weights.to(v.dtype) @ v": "weights.to(v.dtype) @ v"}
PLANTED = "nothing is returned"
CAUGHT_BY = ("accuracy", "shapes")
CAUSE = "none"
