"""Softmax in the log domain, where products become sums."""

BASE = "exp2_softmax"
REPLACE = {
    "    weights = weights / total.masked_fill(blind, 1.0)\n": """\
    logs = weights.masked_fill(~seen, 1.0).log() - total.masked_fill(blind, 1.0).log()
    weights = logs.exp().masked_fill(~seen, 0.0)
""",
}
PLANTED = "the log of a weight that underflowed makes the gradients NaN"
CAUGHT_BY = ("stability",)
CAUSE = ("nan", "log", "underflow", "one-hot")
