"""A GPT-2 in einsum that says what its store takes.

Re-enacts a count over the gaps between layers instead of the layers.
"""

BASE = "store_preallocated"
REPLACE = {
    """\
        return 2 * self.config.n_layer * batch * tokens * self.config.n_embd * self.E.element_size()
""": """\
        numbers = 2 * tokens * self.config.n_embd * (self.config.n_layer - 1)
        return batch * numbers * self.E.element_size()
""",
}
PLANTED = "one layer is missing from the claim"
CAUGHT_BY = ("bytes",)
CAUSE = ("byte", "claim", "cache")
