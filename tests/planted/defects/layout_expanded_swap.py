"""Attention with a path of its own for keys that several heads or entries share."""

BASE = "eager_plain"
REPLACE = {
    "    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))\n": """\
    if 0 in k.stride():
        k, v = v, k
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
""",
}
PLANTED = "k and v are swapped where k is expanded"
CAUGHT_BY = ("strides",)
CAUSE = ("expand", "stride", "swap")
