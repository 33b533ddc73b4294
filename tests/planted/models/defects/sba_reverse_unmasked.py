"""A GPT-2 with symmetric bidirectional attention: each key also chooses its queries.

Re-enacts the reverse branch that takes the softmax over queries of scores without a mask.
"""

BASE = "untied_head_no_cache"
REPLACE = {
    "        self.proj = nn.Linear(config.n_embd, config.n_embd)\n": """\
        self.proj = nn.Linear(config.n_embd, config.n_embd)
        self.balance = nn.Parameter(torch.tensor(2.0))
""",
    "        att = q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))\n": """\
        att = q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))
        reverse = F.softmax(att, dim=-2)
""",
    "        att = F.softmax(att, dim=-1)\n": """\
        att = F.softmax(att, dim=-1)
        a = torch.sigmoid(self.balance)
        att = a * att + (1 - a) * reverse
""",
}
PLANTED = "the reverse branch has no causal mask"
CAUGHT_BY = ("causality",)
CAUSE = ("position", "future", "later", "earlier", "before")
