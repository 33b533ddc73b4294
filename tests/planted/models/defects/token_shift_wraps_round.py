"""A GPT-2 with a token shift: each channel is mixed with that of the token before.

Re-enacts a shift by torch.roll, which brings the last token round to the first position.
"""

BASE = "untied_head_no_cache"
REPLACE = {
    "        self.mlp = FeedForward(config)\n": """\
        self.mlp = FeedForward(config)
        self.shift = nn.Parameter(torch.full((config.n_embd,), 0.3))
""",
    "        x = x + self.attn(self.ln1(x))\n": """\
        h = self.ln1(x)
        h = h + self.shift * (torch.roll(h, 1, dims=1) - h)
        x = x + self.attn(h)
""",
}
PLANTED = "torch.roll brings the last token to position 0"
CAUGHT_BY = ("causality",)
CAUSE = ("position", "future", "later", "earlier", "before")
