"""Grouped-query attention with a hand-written backward."""

BASE = "hand_written_backward"
REPLACE = {"(-1, group)).sum(dim=2)": "(-1, group)).mean(dim=2)"}
PLANTED = "dk and dv are averaged over the group instead of summed"
CAUGHT_BY = ("gradients", "accuracy", "shapes")
CAUSE = ("group", "kv head", "query heads", "heads")
