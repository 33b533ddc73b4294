"""Grouped-query attention: keys and values are repeated to the number of query heads."""

BASE = "eager_plain"
REPLACE = {"x.repeat_interleave(group, dim=1)": "x.repeat(1, group, 1, 1)"}
PLANTED = "query head h reads kv head h % kv_heads"
CAUGHT_BY = ("accuracy", "shapes", "metamorphic", "gradients")
CAUSE = "query head h reads kv head h % kv_heads"
