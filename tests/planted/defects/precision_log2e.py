"""Softmax with powers of two; log2(e) goes into the scale."""

BASE = "exp2_softmax"
REPLACE = {"math.log2(math.e)": "1.443"}
PLANTED = "log2(e) is written with too few digits"
CAUGHT_BY = ("accuracy", "shapes", "stability")
CAUSE = ("scale", "log2", "precision", "accumulat", "rounding", "rounded")
