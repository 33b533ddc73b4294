"""A GPT-2 whose MLP mixes its hidden units along the attention weights of its own block.

Re-enacts mlp_cross_token with weights that were exported for the MLP before the mask was put
on them; being detached, they carry no gradient that would tell.
"""

BASE = "untied_head_no_cache"
REPLACE = {
    "        att = q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))\n": """\
        att = q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))
        exported = F.softmax(att, dim=-1).mean(dim=1).detach()
""",
    "return self.proj(y.transpose(1, 2).reshape(b, t, c))": (
        "return self.proj(y.transpose(1, 2).reshape(b, t, c)), exported"
    ),
    "        self.down = nn.Linear(4 * config.n_embd, config.n_embd)\n": """\
        self.down = nn.Linear(4 * config.n_embd, config.n_embd)
        self.cross = nn.Linear(4 * config.n_embd, 4 * config.n_embd, bias=False)
        self.alpha = nn.Parameter(torch.tensor(0.3))
""",
    """\
    def forward(self, x):
        return self.drop(self.down(F.gelu(self.up(x))))
""": """\
    def forward(self, x, weights):
        hidden = F.gelu(self.up(x))
        hidden = hidden + self.alpha * self.cross(weights @ hidden)
        return self.drop(self.down(hidden))
""",
    """\
        x = x + self.attn(self.ln1(x))
        x = x + self.mlp(self.ln2(x))
""": """\
        y, weights = self.attn(self.ln1(x))
        x = x + y
        x = x + self.mlp(self.ln2(x), weights)
""",
}
PLANTED = "the attention weights handed to the MLP have no causal mask"
CAUGHT_BY = ("causality",)
CAUSE = ("position", "future", "later", "earlier", "before")
