"""Attention that keeps the product of q and k from overflowing."""

BASE = "eager_plain"
REPLACE = {"k.float().transpose(-1, -2))": "k.float().transpose(-1, -2)).clamp(-1000.0, 1000.0)"}
PLANTED = "scores are clamped to +-1000 before the scale is applied"
CAUGHT_BY = ("stability",)
CAUSE = "scores are clamped to +-1000 before the scale"
SLOW = True  # another of its kind is quick
