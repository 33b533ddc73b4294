"""Scaled dot-product attention; scaling q first keeps the scores small."""

BASE = "eager_plain"
REPLACE = {"(q.float() @": "(scale * q.float() @"}
PLANTED = "the scale is applied to q and again to the scores"
CAUGHT_BY = ("accuracy", "shapes", "gradients")
CAUSE = "scale"
