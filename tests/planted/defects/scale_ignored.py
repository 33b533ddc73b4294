"""Scaled dot-product attention, divided by the root of the head dimension."""

BASE = "eager_plain"
REPLACE = {"scores = scale *": "scores = q.shape[-1] ** -0.5 *"}
PLANTED = "the scale argument is ignored"
CAUGHT_BY = ("accuracy", "metamorphic", "shapes")
CAUSE = "scale"
