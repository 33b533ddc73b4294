"""A GPT-2 that also pools pairs of tokens; each pair sees the mean of the pair before.

Re-enacts a reshape that only even lengths survive.
"""

BASE = "untied_head_no_cache"
REPLACE = {
    "        self.mlp = FeedForward(config)\n": """\
        self.mlp = FeedForward(config)
        self.pool = nn.Linear(config.n_embd, config.n_embd)
""",
    "        x = x + self.attn(self.ln1(x))\n": """\
        x = x + self.attn(self.ln1(x))
        b, t, c = x.size()
        pairs = self.pool(x.view(b, t // 2, 2, c).mean(dim=2))
        x = x + F.pad(pairs, (0, 0, 1, -1)).repeat_interleave(2, dim=1)
""",
}
PLANTED = "forward raises when T is odd"
CAUGHT_BY = ("logits", "causality", "state")
CAUSE = ("shape", "RuntimeError", "odd", "length", "invalid")
