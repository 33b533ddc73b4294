"""A GPT-2 with a token shift that starts from a row of zeros.

Re-enacts something allocated for the first batch that comes along and used for all others.
"""

BASE = "untied_head_no_cache"
REPLACE = {
    "        self.mlp = FeedForward(config)\n": """\
        self.mlp = FeedForward(config)
        self.shift = nn.Parameter(torch.full((config.n_embd,), 0.3))
        self.zeros = None
""",
    "        x = x + self.attn(self.ln1(x))\n": """\
        if self.zeros is None:
            self.zeros = torch.zeros_like(x[:, :1])
        h = self.ln1(x)
        h = h + self.shift * torch.cat([self.zeros, h[:, :-1]], dim=1)
        x = x + self.attn(h)
""",
}
PLANTED = "the zeros are made once, for the first batch size"
CAUGHT_BY = ("state",)
CAUSE = ("batch", "size", "shape")
