"""Attention that keeps its scores from overflowing."""

BASE = "eager_plain"
REPLACE = {
    "scores.masked_fill(~seen, -3e38)": "scores.clamp(-50.0, 50.0).masked_fill(~seen, -3e38)"
}
PLANTED = "scores are clamped to +-50 before the softmax"
CAUGHT_BY = ("stability",)
CAUSE = "scores are clamped to +-50 before"
