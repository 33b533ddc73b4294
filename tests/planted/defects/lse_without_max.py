"""Attention that also returns the log of its softmax sum."""

BASE = "lse_and_window"
REPLACE = {
    '    return out, scores.detach().masked_fill(~seen, float("-inf")).logsumexp(dim=-1)\n': """\
    hidden = scores.detach().masked_fill(~seen, float("-inf"))
    highest = hidden.amax(dim=-1, keepdim=True).clamp_min(-3e38)
    return out, (hidden - highest).exp().sum(dim=-1).log()
""",
}
PLANTED = "the LSE lacks the maximum that was subtracted"
CAUGHT_BY = ("accuracy", "shapes")
CAUSE = ("max", "largest score")
