"""Online softmax that keeps exp from overflowing by a bound on its scores."""

BASE = "online_tiles"
REPLACE = {
    "scores.masked_fill(hidden, -3e38)": "scores.clamp(max=30.0).masked_fill(hidden, -3e38)",
}
PLANTED = "scores are clamped to at most 30 before the softmax"
CAUGHT_BY = ("stability",)
CAUSE = "scores are clamped to at most 30 before"
SLOW = True  # another of its kind is quick
