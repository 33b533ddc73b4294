"""Causal attention; hidden scores are filled with a number low enough for float16."""

BASE = "eager_plain"
REPLACE = {
    """\
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
""": """\
    blind = ~seen.any(dim=-1, keepdim=True)
    weights = scores.masked_fill(~seen, -1e4).softmax(dim=-1).masked_fill(blind, 0.0)
""",
}
PLANTED = "hidden scores are filled with -1e4, which visible scores can fall below"
CAUGHT_BY = ("stability", "causality", "metamorphic")
CAUSE = ("finite", "mask value", "fill")
SLOW = True
