"""Grouped-query attention with a hand-written backward."""

BASE = "hand_written_backward"
REPLACE = {"(-1, group)).sum(dim=2)": "(-1, group))[:, :, -1]"}
PLANTED = "dk and dv come from the last query head of each group alone"
CAUGHT_BY = ("gradients", "accuracy", "shapes")
CAUSE = ("group", "kv head", "query heads", "heads")
