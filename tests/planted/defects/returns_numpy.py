"""Attention with the result as an array, ready for analysis."""

BASE = "eager_plain"
REPLACE = {"weights.to(v.dtype) @ v": "(weights.to(v.dtype) @ v).detach().float().cpu().numpy()"}
PLANTED = "a NumPy array is returned"
CAUGHT_BY = ("accuracy", "shapes")
CAUSE = ("numpy", "ndarray")
