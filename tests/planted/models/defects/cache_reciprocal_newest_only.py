"""A GPT-2 that mixes attention with its mirrored view; the cache holds queries too.

Re-enacts a reciprocal branch that takes the newest queries as its only keys: the full pass has
all of them at hand, cached decode does not.
"""

BASE = "reciprocal_mix"
REPLACE = {
    """\
        mirror = (k @ seen.q.mT * scale).masked_fill(hidden, -torch.inf)
        p = torch.sigmoid(self.alternation)
        y = (1 - p) * scores.softmax(-1) @ seen.v + p * mirror.softmax(-1) @ seen.v
""": """\
        newest = hidden[:, S - T :]
        mirror = (k @ q.mT * scale).masked_fill(newest, -torch.inf)
        p = torch.sigmoid(self.alternation)
        y = (1 - p) * scores.softmax(-1) @ seen.v + p * mirror.softmax(-1) @ v
""",
}
PLANTED = "with a cache the mirrored view sees the newest tokens only"
CAUGHT_BY = ("cached",)
CAUSE = ("cache", "decode", "token")
