"""A GPT-2 with a gated reciprocal view beside attention, as tanh(beta) with beta = 0.

Re-enacts a leak that is exactly absent at initialisation and opens as soon as beta moves.
"""

BASE = "untied_head_no_cache"
REPLACE = {
    "        self.proj = nn.Linear(config.n_embd, config.n_embd)\n": """\
        self.proj = nn.Linear(config.n_embd, config.n_embd)
        self.view = nn.Linear(config.n_embd, config.n_embd, bias=False)
        self.view_norm = nn.LayerNorm(config.n_embd)
        self.beta = nn.Parameter(torch.zeros(()))
""",
    "        return self.proj(y.transpose(1, 2).reshape(b, t, c))\n": """\
        mirror = F.softmax(k @ q.transpose(-2, -1) / math.sqrt(k.size(-1)), dim=-1) @ v
        y, mirror = (z.transpose(1, 2).reshape(b, t, c) for z in (y, mirror))
        return self.proj(y + torch.tanh(self.beta) * self.view_norm(self.view(mirror)))
""",
}
PLANTED = "the gated view has no causal mask; its gate is 0 at first"
CAUGHT_BY = ("causality",)
CAUSE = ("position", "future", "later", "earlier", "before")
