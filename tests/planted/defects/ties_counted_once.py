"""Softmax written out; the maximum itself adds exactly one to the sum."""

BASE = "exp2_softmax"
REPLACE = {
    "scores.detach().amax(": "scores.amax(",
    "    total = weights.sum(dim=-1, keepdim=True)\n": """\
    total = 1.0 + weights.masked_fill(scores == highest, 0.0).sum(dim=-1, keepdim=True)
""",
}
PLANTED = "scores equal to the maximum are counted once in the sum"
CAUGHT_BY = ("stability",)
CAUSE = ("tie", "equal")
