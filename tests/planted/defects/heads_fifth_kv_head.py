"""Grouped-query attention with room for five kv heads."""

BASE = "eager_plain"
REPLACE = {
    "    k, v = (x.repeat": (
        "    k, v = (x[:, torch.arange(x.shape[1]).clamp(max=4)] for x in (k, v))\n"
        "    k, v = (x.repeat"
    )
}
PLANTED = "kv heads from the sixth on read the fifth"
CAUGHT_BY = ("shapes",)
CAUSE = "head"
