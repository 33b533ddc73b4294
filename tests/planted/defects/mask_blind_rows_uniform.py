"""Causal attention; the mask adds -1e6 to every hidden score."""

BASE = "eager_plain"
REPLACE = {
    "scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)": """\
(scores + torch.where(seen, 0.0, -1e6)).softmax(dim=-1)""",
}
PLANTED = "a query that sees no key gets an average of all values instead of zero"
CAUGHT_BY = ("shapes", "causality", "gradients", "accuracy")
CAUSE = ("no key", "sees nothing", "see nothing", "blind", "fully masked")
