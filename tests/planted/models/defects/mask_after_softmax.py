"""A GPT-2 that multiplies its attention weights by the causal mask.

Re-enacts a mask applied after the softmax: the future has no values any more, but it still
takes its share of the denominator.
"""

BASE = "untied_head_no_cache"
REPLACE = {
    """\
        att = att.masked_fill(~self.mask[:t, :t], float("-inf"))
        att = F.softmax(att, dim=-1)
""": """\
        att = F.softmax(att, dim=-1) * self.mask[:t, :t]
""",
}
PLANTED = "the softmax is normalised over future keys too"
CAUGHT_BY = ("causality",)
CAUSE = ("position", "future", "later", "earlier", "before")
