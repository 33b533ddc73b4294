"""Causal attention with an additive bias, as in models that pass their mask along."""

BASE = "eager_plain"
REPLACE = {
    """\
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
""": """\
    bias = (~seen).float() * -10000.0
    blind = ~seen.any(dim=-1, keepdim=True)
    weights = (scores + bias).softmax(dim=-1).masked_fill(blind, 0.0)
""",
}
PLANTED = "-1e4 is added to hidden scores, which leaks where scores differ by more"
CAUGHT_BY = ("stability", "causality")
CAUSE = ("finite", "mask value", "bias", "added")
