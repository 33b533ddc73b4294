"""Attention whose scale is 0.05 % too large, which looks like rounding by its size."""

BASE = "eager_plain"
REPLACE = {"scores = scale * (": "scores = 1.0005 * scale * ("}
PLANTED = "the scale is 1.0005 times too large"
CAUGHT_BY = ("accuracy", "shapes")
CAUSE = "the scores are multiplied by about 1.0005 times the scale"
