"""A GPT-2 in einsum, whose last layer was ported from code with another mask convention.

Re-enacts triu(2) for triu(1) in one layer only: each position sees exactly one token ahead.
"""

BASE = "store_preallocated"
REPLACE = {
    "        self.layer = layer\n": """\
        self.layer = layer
        self.diagonal = 2 if layer == config.n_layer - 1 else 1
""",
    "hidden = torch.ones(t, s, dtype=torch.bool, device=x.device).triu(s - t + 1)": (
        "hidden = torch.ones(t, s, dtype=torch.bool, device=x.device).triu(s - t + self.diagonal)"
    ),
}
PLANTED = "the mask of the last layer is one diagonal too wide"
CAUGHT_BY = ("causality", "cached")
CAUSE = ("position", "future", "later", "earlier", "before", "cache")
