"""Attention that skips weights too small to matter."""

BASE = "exp2_softmax"
REPLACE = {"masked_fill(~seen, 0.0)": "masked_fill(~seen | (scores - highest < -11.5), 0.0)"}
PLANTED = "weights below exp(-8) are dropped"
CAUGHT_BY = ("accuracy", "shapes", "stability")
CAUSE = ("exp", "small weights", "dropped", "precision", "accumulat", "rounding", "rounded")
