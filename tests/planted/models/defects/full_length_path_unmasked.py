"""A nanoGPT that skips building a mask for batches of the full block size.

Re-enacts a fast path for one shape: short sequences, such as those of tests, never take it.
"""

BASE = "nanogpt"
REPLACE = {
    "        self.dropout = config.dropout\n": """\
        self.dropout = config.dropout
        self.block_size = config.block_size
""",
    "        mask = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)\n": """\
        mask = None
        if self.block_size > S or past is not None:
            mask = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)
""",
}
PLANTED = "no causal mask when T equals block_size"
CAUGHT_BY = ("causality",)
CAUSE = ("position", "future", "later", "earlier", "before")
