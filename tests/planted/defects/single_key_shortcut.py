"""Attention; with a single key the softmax is one and the value is the answer."""

BASE = "eager_plain"
REPLACE = {
    "    scores = scale * (q.float() @ k.float().transpose(-1, -2))\n": """\
    if keys == 1:
        return v.expand(-1, -1, queries, -1)
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
""",
}
PLANTED = "with one key, queries that see nothing get its value"
CAUGHT_BY = ("shapes", "accuracy", "gradients")
CAUSE = (
    "no gradient",
    "no key",
    "sees nothing",
    "see nothing",
    "blind",
    "one key",
    "single key",
    "n = 1",
    "n=1",
)
