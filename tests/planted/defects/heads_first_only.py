"""Attention for multi-head and multi-query models."""

BASE = "eager_plain"
REPLACE = {
    "    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))\n": """\
    if group > 1:
        k, v = (x[:, :1].expand(-1, q.shape[1], -1, -1) for x in (k, v))
""",
}
PLANTED = "grouped heads all read kv head 0"
CAUGHT_BY = ("accuracy", "shapes", "metamorphic")
CAUSE = ("kv head", "head group", "query heads", "grouped", "heads")
