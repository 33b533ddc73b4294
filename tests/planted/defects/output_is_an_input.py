"""Attention that returns its values where there is one query and one key."""

BASE = "eager_plain"
REPLACE = {
    "    k, v = (x.repeat": (
        "    if queries == keys == 1 and not q.requires_grad:\n"
        "        return v.expand(q.shape) if group == 1 else v.repeat_interleave(group, dim=1)\n"
        "    k, v = (x.repeat"
    )
}
PLANTED = "the output of a single key is the memory of v"
CAUGHT_BY = ("purity",)
CAUSE = "the memory of an input"
