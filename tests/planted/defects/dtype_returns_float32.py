"""Attention with float32 inside, for any input."""

BASE = "eager_plain"
REPLACE = {"weights.to(v.dtype) @ v": "weights @ v.float()"}
PLANTED = "half precision inputs give a float32 output"
CAUGHT_BY = ("accuracy", "shapes")
CAUSE = ("dtype", "float32")
